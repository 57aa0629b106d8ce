// Package identity gives an adapter the GUID by which the connection managers
// of its peers know it. It is the same each time the adapter is opened, so that
// they find out that it was restarted, and strangers cannot compute it: whoever
// knows it may end connections in the adapter's name. So it is a keyed hash of
// the adapter's address, and the key is a secret that each user has in a file.
//
// The GUID itself is no secret from peers: as on hardware, REQ and REP tell it
// to each that connects or is connected to. It keeps out only those with whom the adapter never
// had a connection, and who see none of its packets.
//
// From the same secret the package derives, for each address, the name of a socket by which
// processes of the user find each other where another user has taken the usual one.
//
// Everything is in secret.go. The package does not decide whether an adapter is
// to have such a GUID: package device does.
package identity
