package sim

import (
	"context"
	"sync"
	"time"
)

// Campaign is a series of runs, in order of their seeds, on several processors.
type Campaign struct {
	Config         // of each run, without the seed
	First   uint64 // seed
	Last    uint64 // seed; 0 for no end
	Packets uint64 // stop after this number of packets; 0: no limit
	Workers int    // 0 means 1
	// Progress, if set, is called about once a second, from one goroutine at a
	// time.
	Progress func(Summary)
}

// Summary is the result of a campaign so far.
type Summary struct {
	Runs        uint64        `json:"runs"`          // that ended
	NextSeed    uint64        `json:"next_seed"`     // that was not run
	Packets     uint64        `json:"packets"`       // that all adapters sent
	Posted      uint64        `json:"work_requests"` // that were posted
	Completions uint64        `json:"completions"`   // that were polled
	Virtual     time.Duration `json:"virtual_ns"`    // of all runs
	Busy        time.Duration `json:"busy_ns"`       // real time of all runs
	Elapsed     time.Duration `json:"elapsed_ns"`    // real time
	Marks       Marks         `json:"-"`
	Cells       Marks         `json:"-"` // in the order of CellNames
	Failed      *Result       `json:"-"` // the one with the lowest seed that failed
}

// PerCore returns the packets simulated in a second by one processor.
func (s *Summary) PerCore() float64 {
	if s.Busy == 0 {
		return 0
	}
	return float64(s.Packets) / s.Busy.Seconds()
}

// Run makes the runs until one fails, all are done, the packet limit is
// reached, or ctx ends.
func (c *Campaign) Run(ctx context.Context) (Summary, error) {
	if err := c.fill(); err != nil {
		return Summary{}, err
	}
	k := &campaign{Campaign: c, begin: time.Now()}
	k.sum.NextSeed = c.First
	k.sum.Marks, k.sum.Cells = make(Marks, len(MarkNames(c.Profile))), make(Marks, len(CellNames(c.Profile)))
	k.reported = k.begin
	var wg sync.WaitGroup
	for range max(c.Workers, 1) {
		wg.Go(func() { k.work(ctx) })
	}
	wg.Wait()
	k.sum.Elapsed = time.Since(k.begin)
	return k.sum, k.err
}

// campaign is a running campaign.
type campaign struct {
	*Campaign
	begin time.Time

	mu       sync.Mutex // guards what follows
	sum      Summary
	done     bool // no seeds are left
	err      error
	reported time.Time
}

func (k *campaign) work(ctx context.Context) {
	for ctx.Err() == nil {
		seed, ok := k.next()
		if !ok {
			return
		}
		c := k.Config
		c.Seed = seed
		begin := time.Now()
		r, err := Run(c)
		if !k.add(r, err, time.Since(begin)) {
			return
		}
	}
}

// next returns the next seed.
func (k *campaign) next() (seed uint64, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := &k.sum
	if k.err != nil || s.Failed != nil || k.Packets != 0 && s.Packets >= k.Packets || k.done {
		return 0, false
	}
	seed = s.NextSeed
	k.done = k.Last != 0 && seed == k.Last
	s.NextSeed++
	return seed, true
}

// add adds the result of a run and reports whether to go on.
func (k *campaign) add(r *Result, err error, took time.Duration) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil {
		k.err = err
		return false
	}
	s := &k.sum
	s.Runs++
	s.Packets += r.Packets
	s.Posted += r.Posted
	s.Completions += r.Completions
	s.Virtual += r.Virtual
	s.Busy += took
	s.Marks.add(r.Marks)
	s.Cells.add(r.Cells)
	if r.Violation != nil && (s.Failed == nil || r.Seed < s.Failed.Seed) {
		s.Failed = r
	}
	if now := time.Now(); k.Progress != nil && now.Sub(k.reported) >= time.Second {
		k.reported = now
		s.Elapsed = now.Sub(k.begin)
		k.Progress(*s)
	}
	return true
}
