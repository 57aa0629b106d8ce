// Package stacks says where the threads of other processes wait: their stacks, by ptrace and the unwinding tables of the files that they
// execute. Of a process that must not be traced, it says what /proc tells.
//
// Reading order: stacks.go (what is found, and its bounds), text.go, collect_linux.go (stops the threads), maps_linux.go (the files that
// a process executes), object.go (an ELF file), unwind.go (from frame to frame), arch_*.go (the registers of a processor),
// space.go (the memory of a process), calls_linux*.go (system calls by number), proc_linux.go (what /proc tells), queues_linux.go (what queue pairs
// wait for). Package cfi reads unwinding tables.
//
// All that is read from the processes may be damaged or hostile: it has bounds, and text is made safe to print.
package stacks
