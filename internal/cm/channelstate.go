package cm

// ChannelState is where one end of a reliable datagram channel stands (C14).
type ChannelState uint8

// The states of a channel.
const (
	ChannelOpening ChannelState = iota // its first connection is being made
	ChannelUp                          // others may join
	ChannelDown                        // nobody uses it any more; packets may still be under way
	ChannelOver                        // its EE context may serve another channel
	numChannelStates
)

var channelStateNames = [numChannelStates]string{"CHANNEL_OPENING", "CHANNEL_UP", "CHANNEL_DOWN", "CHANNEL_OVER"}

// String returns the name, such as "CHANNEL_UP".
func (s ChannelState) String() string {
	return nameOf(channelStateNames[:], s, "invalid channel state")
}

// ChannelInput is what moves a channel: what becomes of its connections.
type ChannelInput uint8

// The inputs.
const (
	ChannelJoin  ChannelInput = iota // a connection with "RDC exists" is to use it, of either side
	ChannelReady                     // of a connection that uses it REP is sent, or RTU
	ChannelLeft                      // the last that uses it has begun to end
	ChannelGone                      // the last that used it is out of TIMEWAIT
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
	channelTake                 // the connection uses it too
	channelRefuse               // REJ, RDC does not exist; of our own REQ an error
	channelDown                 // the EE context goes to ERR, and a REQ no longer finds the channel
	channelFree                 // its EECN is forgotten
	numChannelActions
)

var channelWords = [numChannelActions]string{
	channelNone:   "nothing",
	channelTake:   "the connection uses it too",
	channelRefuse: "send REJ: RDC does not exist; a call fails",
	channelDown:   "move the EE context to ERR",
	channelFree:   "forget its number",
}

// String returns what is done, in words.
func (a channelAction) String() string { return nameOf(channelWords[:], a, "invalid channel action") }

type channelCell = cellOf[channelAction, ChannelState]

type channelRow struct {
	in   ChannelState
	on   ChannelInput
	do   channelAction
	next ChannelState
}

func channelRows() []channelRow {
	return []channelRow{
		{ChannelOpening, ChannelJoin, channelRefuse, ChannelOpening},
		{ChannelOpening, ChannelReady, channelNone, ChannelUp},
		{ChannelOpening, ChannelLeft, channelDown, ChannelDown},
		{ChannelUp, ChannelJoin, channelTake, ChannelUp},
		{ChannelUp, ChannelReady, channelNone, ChannelUp},
		{ChannelUp, ChannelLeft, channelDown, ChannelDown},
		{ChannelDown, ChannelJoin, channelRefuse, ChannelDown},
		{ChannelDown, ChannelGone, channelFree, ChannelOver},
		{ChannelOver, ChannelJoin, channelRefuse, ChannelOver},
	}
}

type channelTable [numChannelStates][numChannelInputs]channelCell

// channelMachine is the rows by state and input. It never changes.
var channelMachine = newChannelTable()

func newChannelTable() *channelTable {
	t := new(channelTable)
	for _, r := range channelRows() {
		t[r.in][r.on] = cellFor(r.do, r.next, NoEvent)
	}
	return t
}
