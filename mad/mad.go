package mad

// Sizes of a management datagram in bytes. It is never shorter or longer.
const (
	Size       = 256
	HeaderSize = 24
	DataSize   = Size - HeaderSize
)

// MAD is a management datagram: a header, and data whose layout the class and
// the attribute of the header determine (IBA 13.4). It is the payload of one
// UD SEND between two QP1s. A slice of Size bytes is seen as one, without
// a copy, by the conversion (*MAD)(b).
type MAD [Size]byte

// Header returns the decoded header.
func (m *MAD) Header() Header {
	var h Header
	h.layout(layout{b: m[:HeaderSize]})
	return h
}

// PutHeader writes the header and leaves the data alone.
func (m *MAD) PutHeader(h Header) {
	clear(m[:HeaderSize])
	h.layout(layout{b: m[:HeaderSize], writes: true})
}

// Data returns the bytes after the header: those of m, not a copy.
func (m *MAD) Data() *[DataSize]byte { return (*[DataSize]byte)(m[HeaderSize:]) }

// Unsupported returns the answer to a request that has no handler: of an
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
