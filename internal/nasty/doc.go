// Package nasty decides how an adapter behaves as badly as the specification permits
// (softhca run --nasty): what the behaviours are, which of them a program gets, and, from a seed,
// when each of them happens.
//
// Reading order: part.go (the behaviours and their permissions), config.go (the text that selects
// them), dice.go (the random choices).
//
// The package does nothing itself: the engine asks a Dice where it has a choice. No behaviour
// makes an operation fail; faults do that, and belong to package fault.
package nasty
