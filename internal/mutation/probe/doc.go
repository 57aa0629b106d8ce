// Command probe runs the simulator and the scripts and prints what failed, as
// JSON. The tests of the package above build it with an engine that is broken
// on purpose.
package main
