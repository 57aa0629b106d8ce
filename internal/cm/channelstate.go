package cm

// ChannelState is the state of one end of a reliable datagram channel (C14).
type ChannelState uint8

// The states of a channel.
const (
	ChannelOpening ChannelState = iota // its first connection is being set up
	ChannelUp                          // further connections may join
	ChannelDown                        // no connection uses it; packets may still be in the network
	ChannelOver                        // its EE context may serve another channel
	numChannelStates
)

var channelStateNames = [numChannelStates]string{"CHANNEL_OPENING", "CHANNEL_UP", "CHANNEL_DOWN", "CHANNEL_OVER"}

// String returns the name, such as "CHANNEL_UP".
func (s ChannelState) String() string {
	return nameOf(channelStateNames[:], s, "invalid channel state")
}

// ChannelInput is an input of the channel machine: an event of one of its
// connections.
type ChannelInput uint8

// The inputs.
const (
	ChannelJoin  ChannelInput = iota // a connection of either side with "RDC exists" wants to use it
	ChannelReady                     // REP or RTU of one of its connections was sent
	ChannelLeft                      // its last connection has started to end
	ChannelGone                      // its last connection has left TIMEWAIT
	numChannelInputs
)

var channelInputNames = [numChannelInputs]string{
	"join (RDC exists)", "REP or RTU sent", "last one left", "last TIMEWAIT over",
}

// String returns the input in words.
func (i ChannelInput) String() string {
	return nameOf(channelInputNames[:], i, "invalid channel input")
}

type channelAction uint8

const (
	channelNone   channelAction = iota
	channelTake                 // the connection joins
	channelRefuse               // REJ, RDC does not exist; an error for a local REQ
	channelDown                 // the EE context goes to ERR, and a REQ no longer finds the channel
	channelFree                 // its EECN is free for another channel
	numChannelActions
)

var channelWords = [numChannelActions]string{
	channelNone:   "nothing",
	channelTake:   "the connection uses it too",
	channelRefuse: "send REJ: RDC does not exist; a call fails",
	channelDown:   "move the EE context to ERR",
	channelFree:   "release its number",
}

// String returns what is done, in words.
func (a channelAction) String() string { return nameOf(channelWords[:], a, "invalid channel action") }

type channelRow = rowOf[channelAction, ChannelState, ChannelInput]

func channelRows() []channelRow {
	return []channelRow{
		{in(ChannelOpening), ChannelJoin, channelRefuse, stay, NoEvent},
		{in(ChannelOpening), ChannelReady, channelNone, ChannelUp, NoEvent},
		{in(ChannelOpening), ChannelLeft, channelDown, ChannelDown, NoEvent},
		{in(ChannelUp), ChannelJoin, channelTake, stay, NoEvent},
		{in(ChannelUp), ChannelReady, channelNone, stay, NoEvent},
		{in(ChannelUp), ChannelLeft, channelDown, ChannelDown, NoEvent},
		{in(ChannelDown), ChannelJoin, channelRefuse, stay, NoEvent},
		{in(ChannelDown), ChannelGone, channelFree, ChannelOver, NoEvent},
		{in(ChannelOver), ChannelJoin, channelRefuse, stay, NoEvent},
	}
}

var channelMachine = newMachine(numChannelStates, numChannelInputs, channelRows())
