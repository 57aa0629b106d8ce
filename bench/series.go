package main

import "slices"

// series is the figures of the rounds.
type series []float64

// spread is a median with the least and the greatest value.
type spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// spread summarizes a series that is not empty.
func (s series) spread() spread {
	v := slices.Sorted(slices.Values(s))
	n := len(v)
	return spread{(v[(n-1)/2] + v[n/2]) / 2, v[0], v[n-1]}
}

// over returns the ratios of neighbours: s of a round over t of the same.
func (s series) over(t series) series {
	r := make(series, len(s))
	for i := range s {
		r[i] = s[i] / t[i]
	}
	return r
}
