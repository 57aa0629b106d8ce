//go:build !portable

package broker

// ClaimDomain gives this process the XRC domain of a file, until the same number of calls of
// ReleaseDomain or the end of the process. Errors: those of Claim.
func (s *Lease) ClaimDomain(file string) error { return s.Claim(domainID(file)) }

// ReleaseDomain undoes a ClaimDomain.
func (s *Lease) ReleaseDomain(file string) { s.Release(domainID(file)) }
