package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/template"
)

// plot is a figure of throughput against loss: a line for each operation and
// each reference. The steps of loss are at equal distances.
type plot struct {
	Title string
	Note  string
	lines []line
}

// line is one line of a plot.
type line struct {
	name   string
	points []point
}

// point is a median with the least and the greatest value.
type point struct {
	share float64
	rate  spread
}

// add puts a point on the line of a name, unless the line has one with that
// share.
func (p *plot) add(name string, share float64, rate spread) {
	at := slices.IndexFunc(p.lines, func(l line) bool { return l.name == name })
	if at < 0 {
		at = len(p.lines)
		p.lines = append(p.lines, line{name: name})
	}
	l := &p.lines[at]
	if !slices.ContainsFunc(l.points, func(o point) bool { return o.share == share }) {
		l.points = append(l.points, point{share, rate})
		slices.SortFunc(l.points, func(a, b point) int { return cmp.Compare(a.share, b.share) })
	}
}

// lossPlot returns the figure of a report, none if no line has two points.
func (r *report) lossPlot(list []measurement) (p plot, ok bool) {
	p = plot{
		Title: "Throughput against loss",
		Note: fmt.Sprintf("1 MiB messages, median and range; %s, %d cores, %s %s; %s",
			r.Machine.CPU, r.Machine.Cores, r.Machine.OS, r.Machine.Kernel, r.Date),
	}
	for i := range r.Results {
		x := &r.Results[i]
		at := slices.IndexFunc(list, func(m measurement) bool { return m.name == x.Name })
		if at < 0 || list[at].loss.line == "" || !x.measured() {
			continue
		}
		switch l := list[at].loss; l.other {
		case "":
			p.add(l.line, 0, x.Baseline)
			p.add(l.line, l.share, x.Softhca)
		default:
			p.add(l.line, l.share, x.Softhca)
			p.add(l.other, l.share, x.Baseline)
		}
	}
	return p, slices.ContainsFunc(p.lines, func(l line) bool { return len(l.points) > 1 })
}

// The geometry of the figure, in its own units.
const (
	plotLeft, plotTop     = 70, 50
	plotWidth, plotHeight = 560, 320
	legendLeft            = plotLeft + plotWidth + 24
)

// colours are distinguishable for colour-blind readers too.
var colours = [...]string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"}

// drawn is a plot in the template's form.
type drawn struct {
	plot
	Width, Height            int
	Left, Top, Right, Bottom float64
	Xs, Ys                   []tick
	Lines                    []drawnLine
}

// tick is a mark of an axis.
type tick struct {
	At    float64
	Label string
}

// drawnLine is a line with its coordinates in the figure.
type drawnLine struct {
	Name, Colour, Path string
	Dots               []dot
	KeyX, KeyY         float64 // of its entry in the legend
}

// dot is a point with its range.
type dot struct{ X, Y, Low, High float64 }

// write writes the figure as SVG.
func (p *plot) write(w io.Writer) error {
	d := drawn{
		plot: *p, Width: legendLeft + 170, Height: plotTop + plotHeight + 80,
		Left: plotLeft, Top: plotTop, Right: plotLeft + plotWidth, Bottom: plotTop + plotHeight,
	}
	var shares []float64
	most := 0.0
	for _, l := range p.lines {
		for _, o := range l.points {
			shares = append(shares, o.share)
			most = max(most, o.rate.Max)
		}
	}
	slices.Sort(shares)
	shares = slices.Compact(shares)
	step := niceStep(most)
	top := step * math.Ceil(most/step)
	x := func(share float64) float64 {
		return plotLeft + plotWidth*(float64(slices.Index(shares, share))+0.5)/float64(len(shares))
	}
	y := func(rate float64) float64 { return plotTop + plotHeight*(1-rate/top) }
	for _, s := range shares {
		d.Xs = append(d.Xs, tick{x(s), fmt.Sprintf("%g %%", 100*s)})
	}
	for v := 0.0; v <= top; v += step {
		d.Ys = append(d.Ys, tick{y(v), fmt.Sprintf("%g", v)})
	}
	for i, l := range p.lines {
		dl := drawnLine{Name: l.name, Colour: colours[i%len(colours)], KeyX: legendLeft, KeyY: float64(plotTop + 10 + 22*i)}
		var path []string
		for _, o := range l.points {
			dl.Dots = append(dl.Dots, dot{x(o.share), y(o.rate.Median), y(o.rate.Min), y(o.rate.Max)})
			path = append(path, fmt.Sprintf("%.1f,%.1f", x(o.share), y(o.rate.Median)))
		}
		dl.Path = strings.Join(path, " ")
		d.Lines = append(d.Lines, dl)
	}
	return figure().Execute(w, d)
}

// niceStep returns the distance of the marks of an axis that ends beyond most:
// 1, 2 or 5 times a power of ten, about five of them.
func niceStep(most float64) float64 {
	if most <= 0 {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(most/5)))
	for _, k := range []float64{1, 2, 5} {
		if k*unit*6 >= most {
			return k * unit
		}
	}
	return 10 * unit
}

// figure parses the template of a figure, whose text is escaped.
func figure() *template.Template {
	return template.Must(template.New("figure").Parse(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {{.Width}} {{.Height}}" font-family="sans-serif" font-size="13">
<rect width="{{.Width}}" height="{{.Height}}" fill="white"/>
<text x="{{.Left}}" y="28" font-size="16" font-weight="bold">{{html .Title}}</text>
{{range .Ys}}<line x1="{{$.Left}}" x2="{{$.Right}}" y1="{{printf "%.1f" .At}}" y2="{{printf "%.1f" .At}}" stroke="#dddddd"/>
<text x="{{$.Left}}" dx="-8" y="{{printf "%.1f" .At}}" dy="4" text-anchor="end">{{.Label}}</text>
{{end}}<text x="16" y="{{.Top}}" dy="-10">Gb/s</text>
{{range .Xs}}<text x="{{printf "%.1f" .At}}" y="{{$.Bottom}}" dy="20" text-anchor="middle">{{.Label}}</text>
{{end}}<text x="{{.Right}}" y="{{.Bottom}}" dy="40" text-anchor="end">packets lost each way</text>
{{range .Lines}}<g stroke="{{.Colour}}" fill="{{.Colour}}">
<polyline points="{{.Path}}" fill="none" stroke-width="2"/>
{{range .Dots}}<line x1="{{printf "%.1f" .X}}" x2="{{printf "%.1f" .X}}" y1="{{printf "%.1f" .Low}}" y2="{{printf "%.1f" .High}}"/>
<circle cx="{{printf "%.1f" .X}}" cy="{{printf "%.1f" .Y}}" r="4" stroke="none"/>
{{end}}<line x1="{{.KeyX}}" x2="{{.KeyX}}" y1="{{.KeyY}}" y2="{{.KeyY}}" stroke-width="12" stroke-linecap="round"/>
<text x="{{.KeyX}}" dx="14" y="{{.KeyY}}" dy="5" stroke="none" fill="black">{{html .Name}}</text>
</g>
{{end}}<text x="{{.Left}}" y="{{.Bottom}}" dy="64" font-size="11" fill="#555555">{{html .Note}}</text>
</svg>
`))
}
