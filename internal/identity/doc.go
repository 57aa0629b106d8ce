// Package identity derives the GUID by which the connection managers of peers
// identify an adapter. It is the same each time the adapter is opened, so that
// peers detect a restart. Strangers must not be able to compute it, since with
// it they could end connections in the adapter's name. So it is a keyed hash of
// the adapter's address; the key is a secret in a file of the user.
//
// Peers know the GUID: as on hardware, REQ and REP carry it to every peer of a connection. It
// protects only against hosts that never had a connection with the adapter and that see none of
// its packets.
//
// From the same secret the package derives, for each address, the name of a socket by which
// the user's processes find each other if another user has taken the usual name.
//
// Everything is in secret.go. The package does not decide whether an adapter
// uses such a GUID: package device does.
package identity
