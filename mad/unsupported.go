package mad

// Unsupported returns the answer to a request that nobody here serves: of an
// unknown class, version, method or attribute, as the status says. It is the
// request itself, but a GetResp with the status, so that the requester finds
// its transaction and its data in it (IBA 13.4.5). Only a Get or a Set
// may be answered so: an answer to anything else could itself be answered, for
// ever.
func Unsupported(req *MAD, status Status) MAD {
	resp := *req
	h := req.Header()
	h.Method, h.Status = MethodGetResp, status
	resp.PutHeader(h)
	return resp
}
