// Package golden compares the output of tests with files of the repository. With the flag
// -rewrite it writes the files instead. Only tests import it.
package golden
