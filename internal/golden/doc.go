// Package golden compares what tests make with files of the repository, or writes these with the
// flag -rewrite. Only tests import it.
package golden
