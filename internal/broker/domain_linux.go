//go:build !portable

package broker

// ClaimDomain gives this process the XRC domain of a file, until ReleaseDomain was called as often
// as ClaimDomain, or the process ends. Errors: those of Claim.
func (s *Lease) ClaimDomain(file string) error { return s.Claim(domainID(file)) }

// ReleaseDomain undoes a ClaimDomain.
func (s *Lease) ReleaseDomain(file string) { s.Release(domainID(file)) }
