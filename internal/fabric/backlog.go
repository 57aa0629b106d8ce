package fabric

// Backlog reports how many bytes of the receive buffer of a socket are in use, and its size, as
// the system counts bytes; 0, 0 if these are not known at present. It does not block.
type Backlog func() (used, size int)
