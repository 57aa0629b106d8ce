// Package accept accepts TCP connections whose client has sent its first message. A
// connection whose client says nothing keeps no other client waiting.
//
// Everything is in listener.go.
package accept
