package sim

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Config configures a run. The same Config repeats the run exactly.
type Config struct {
	Seed    uint64
	Ops     int    // actions of the programs; 0 means DefaultOps
	Profile string // name of a profile; empty means "mixed"
	// Skip names actions, by their number from 0, to leave out; Minimize sets
	// it.
	Skip map[int]bool
	// Trace, if set, gets a line for everything that happens.
	Trace io.Writer
	// Watch, if set, has functions that a run of pairs calls.
	Watch *Watch
	// Ladder is the number of last lines that a failed run keeps; 0 means 200.
	Ladder int
}

// DefaultOps is the default number of actions of a run.
const DefaultOps = 400

// fill replaces zero values by defaults.
func (c *Config) fill() error {
	if c.Ops == 0 {
		c.Ops = DefaultOps
	}
	if c.Profile == "" {
		c.Profile = mixed
	}
	if c.Ladder == 0 {
		c.Ladder = 200
	}
	if c.Ops < 0 {
		return fmt.Errorf("sim: %d actions: want 1 or more", c.Ops)
	}
	if _, ok := findProfile(c.Profile); !ok {
		return fmt.Errorf("sim: no profile %q: want one of %s", c.Profile, strings.Join(ProfileNames(), ", "))
	}
	return nil
}

// feature is one kind of fault or stress.
type feature uint32

const (
	loss feature = 1 << iota
	duplication
	reordering
	corruption
	forgery
	partitions
	tightBuffers // the adapters' receive buffers hold few packets
	smallBatches // the adapters' transmit batches hold few packets
	clockJumps
	lateReceives
	smallCQs
	badRequests // bad keys, wrong lengths, bad scatter lists
	deregistration
	lifecycle // QPs modified, reset, destroyed and recreated with work in flight
	draining  // SQD and back
	restarts
	longMessages
	lateAnswers          // adapters receive several packets before they send
	migration            // connections have two paths, which fail
	xrc                  // most connections are of XRC
	windows              // RC connections have memory windows of type 2
	moderation           // programs arm completion queues, and delay their events
	sharedMemory         // adapters of one host exchange packets through shared memory
	nastiness            // adapters behave as badly as the specification permits
	allFeatures  feature = 1<<iota - 1
)

// ownFeatures are the features of profiles of their own.
const ownFeatures = xrc | windows | moderation | sharedMemory | nastiness

var featureNames = [...]string{
	"loss", "duplication", "reordering", "corruption", "forgery", "partitions", "tight buffers", "small batches",
	"clock jumps", "late receives", "small CQs", "bad requests", "deregistration", "lifecycle", "draining", "restarts",
	"long messages", "late answers", "migration", "XRC", "memory windows of type 2", "moderation",
	"shared memory", "nasty adapters",
}

func (f feature) String() string {
	var names []string
	for i, n := range featureNames {
		if f>>i&1 != 0 {
			names = append(names, n)
		}
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// Profile is a named selection of features.
type Profile struct {
	Name  string
	About string
	has   feature
	mixes bool // further features are drawn from the seed
}

// mixed is the default.
const mixed = "mixed"

// storms runs the simulation of package storm.
const storms = "connect"

// extended is the profile of extended reliable connections.
const extended = "xrc"

// windowsOfType2 is the profile of memory windows of type 2.
const windowsOfType2 = "windows"

// completionEvents is the profile of events of completion queues.
const completionEvents = "events"

// nearby has adapters that share memory.
const nearby = "near"

// nastyAdapters has adapters that behave as softhca run --nasty makes them behave.
const nastyAdapters = "nasty"

// datagrams runs the simulation of package channels.
const datagrams = "rd"

var profiles = [...]Profile{
	{mixed, "a random mix of faults for each seed, sometimes none", 0, true},
	{"clean", "no faults: nothing may be lost, repeated or refused", 0, false},
	{"loss", "packets are lost, duplicated and reordered", loss | duplication | reordering | lateReceives | lateAnswers, false},
	{"corrupt", "packets are damaged, truncated and forged, also with the peer's address", corruption | forgery | loss, false},
	{"slow", "receives are posted late; buffers and batches are small", lateReceives | tightBuffers | smallBatches | lateAnswers, false},
	{"errors", "bad requests, deregistered regions, completion queues that overflow", badRequests | deregistration | smallCQs | lateReceives, false},
	{"lifecycle", "queue pairs are modified, drained, reset, destroyed and reused during transfers", lifecycle | draining | loss | reordering, false},
	{"restart", "adapters restart, the network is partitioned, clocks jump", restarts | partitions | clockJumps | loss, false},
	{"migration", "connections have two paths, which fail and recover; both ends may migrate at once", migration | loss | duplication | reordering | draining | lateAnswers, false},
	{"chaos", "everything at once", allFeatures &^ (longMessages | ownFeatures), false},
	{"bulk", "long messages over a network with little loss, to reach many packets", longMessages | loss, false},
	{extended, "extended reliable connections: initiators send to the shared receive queues of two domains, which are destroyed and replaced; a random mix of faults", xrc, true},
	{windowsOfType2, "memory windows of type 2: bound, invalidated by either side, and bound again while peers use their keys; a random mix of faults", windows, true},
	{completionEvents, "completion events: programs arm completion queues, and delay the events by a count and a period; a random mix of faults", moderation, true},
	{nearby, "adapters of one host exchange packets through shared memory: they meet and part, are killed and stopped, and write garbage; a random mix of faults", sharedMemory, true},
	{nastyAdapters, "adapters that behave as badly as the specification permits: late and bunched completions, payload written in another order; a random mix of faults", nastiness, true},
	{storms, "connection storms: programs connect, refuse, delay, disconnect and vanish; a fifth of all packets is lost", 0, false},
	{datagrams, "reliable datagrams: many queue pairs over few EE contexts, reset and destroyed during transfers; paths fail, packets are forged", 0, false},
}

func findProfile(name string) (Profile, bool) {
	i := slices.IndexFunc(profiles[:], func(p Profile) bool { return p.Name == name })
	if i < 0 {
		return Profile{}, false
	}
	return profiles[i], true
}

// Profiles returns the profiles, the default first.
func Profiles() []Profile { return slices.Clone(profiles[:]) }

// ProfileNames returns their names.
func ProfileNames() []string {
	var names []string
	for i := range profiles {
		names = append(names, profiles[i].Name)
	}
	return names
}
