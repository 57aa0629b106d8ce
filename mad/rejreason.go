package mad

// RejReason is why a REJ was sent (IBA table 109).
type RejReason uint16

// The reasons. Those of RejTimeout and RejInvalidGID come with additional
// information: the GUID of the sender's adapter in 8 bytes, a GID to use
// instead in 16.
const (
	RejNoQP                           RejReason = 1
	RejNoEEC                          RejReason = 2
	RejNoResources                    RejReason = 3
	RejTimeout                        RejReason = 4
	RejUnsupportedRequest             RejReason = 5
	RejInvalidCommID                  RejReason = 6
	RejInvalidCommInstance            RejReason = 7
	RejInvalidServiceID               RejReason = 8
	RejInvalidTransport               RejReason = 9
	RejStaleConnection                RejReason = 10
	RejRDCNotExist                    RejReason = 11
	RejInvalidGID                     RejReason = 12
	RejInvalidLID                     RejReason = 13
	RejInvalidSL                      RejReason = 14
	RejInvalidTrafficClass            RejReason = 15
	RejInvalidHopLimit                RejReason = 16
	RejInvalidPacketRate              RejReason = 17
	RejInvalidAltGID                  RejReason = 18
	RejInvalidAltLID                  RejReason = 19
	RejInvalidAltSL                   RejReason = 20
	RejInvalidAltTrafficClass         RejReason = 21
	RejInvalidAltHopLimit             RejReason = 22
	RejInvalidAltPacketRate           RejReason = 23
	RejPortCMRedirect                 RejReason = 24
	RejPortRedirect                   RejReason = 25
	RejInvalidMTU                     RejReason = 26
	RejInsufficientResponderResources RejReason = 27
	RejConsumer                       RejReason = 28 // the program said no
	RejInvalidRNRRetry                RejReason = 29
	RejDuplicateCommID                RejReason = 30
	RejInvalidClassVersion            RejReason = 31
	RejInvalidFlowLabel               RejReason = 32
	RejInvalidAltFlowLabel            RejReason = 33
	RejVendorOptionUnsupported        RejReason = 35
)

var rejReasonNames = [...]string{
	RejNoQP:                           "no QP",
	RejNoEEC:                          "no EE context",
	RejNoResources:                    "no resources",
	RejTimeout:                        "timeout",
	RejUnsupportedRequest:             "unsupported request",
	RejInvalidCommID:                  "invalid communication id",
	RejInvalidCommInstance:            "invalid communication instance",
	RejInvalidServiceID:               "invalid service id",
	RejInvalidTransport:               "invalid transport service",
	RejStaleConnection:                "stale connection",
	RejRDCNotExist:                    "RDC does not exist",
	RejInvalidGID:                     "invalid GID",
	RejInvalidLID:                     "invalid LID",
	RejInvalidSL:                      "invalid SL",
	RejInvalidTrafficClass:            "invalid traffic class",
	RejInvalidHopLimit:                "invalid hop limit",
	RejInvalidPacketRate:              "invalid packet rate",
	RejInvalidAltGID:                  "invalid alternate GID",
	RejInvalidAltLID:                  "invalid alternate LID",
	RejInvalidAltSL:                   "invalid alternate SL",
	RejInvalidAltTrafficClass:         "invalid alternate traffic class",
	RejInvalidAltHopLimit:             "invalid alternate hop limit",
	RejInvalidAltPacketRate:           "invalid alternate packet rate",
	RejPortCMRedirect:                 "port and CM redirection",
	RejPortRedirect:                   "port redirection",
	RejInvalidMTU:                     "invalid path MTU",
	RejInsufficientResponderResources: "insufficient responder resources",
	RejConsumer:                       "consumer reject",
	RejInvalidRNRRetry:                "invalid RNR retry count",
	RejDuplicateCommID:                "duplicate communication id",
	RejInvalidClassVersion:            "unsupported class version",
	RejInvalidFlowLabel:               "invalid flow label",
	RejInvalidAltFlowLabel:            "invalid alternate flow label",
	RejVendorOptionUnsupported:        "vendor option not supported",
}

// String returns the reason in words, such as "consumer reject".
func (r RejReason) String() string { return name(rejReasonNames[:], int(r), "RejReason") }
