// Package top shows what the adapters of this user do, as htop shows processes: their connections,
// queues and regions, with rates, in a terminal, as text and as JSON.
//
// Reading order: model.go (what is shown: adapters, objects, rates), history.go (the last minute),
// column.go and views.go with connections.go, adapters.go and objects.go (the tables), ui.go and
// keys.go (what the user chose), frame.go, draw.go and detail.go (the screen), format.go (numbers),
// text.go and json.go (output without a terminal), terminal.go.
//
// The model, the tables and the screen use neither a terminal nor a clock. The package changes
// nothing in other processes, and it trusts no value that it reads from them.
package top
