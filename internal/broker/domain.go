package broker

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/softhca/softhca/mad"
)

// domains is the first of the IDs under which members claim XRC domains. The IBA reserves service
// IDs with this first byte, so no program listens to one.
const domains = mad.ServiceID(0xff) << 56

// domainID returns the ID under which members claim the XRC domain of a file.
func domainID(file string) mad.ServiceID {
	sum := sha256.Sum256([]byte(file))
	return domains | mad.ServiceID(binary.BigEndian.Uint64(sum[:]))>>8
}

// isDomain reports whether members claim an XRC domain under an ID.
func isDomain(id mad.ServiceID) bool { return id >= domains }

// listening returns the number of claims of a member that are services, not domains.
func listening[V any](claimed map[mad.ServiceID]V) (n int) {
	for id := range claimed {
		if !isDomain(id) {
			n++
		}
	}
	return n
}
