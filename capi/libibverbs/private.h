// The versions of the private part of libibverbs. It is what rdma-core's libraries and
// some of its programs need of libibverbs beyond the verbs.
#ifndef PRIVATE_H
#define PRIVATE_H

// VERSIONS calls X with each version since rdma-core 35: 34 up to rdma-core 56, then 57,
// 59, 64, 65. Here every version has all symbols, even those that rdma-core added later.
// Programs that are linked with this library get the first one.
#define VERSIONS(X, symbol, name) \
	X(symbol, name, 34, "@@") \
	X(symbol, name, 57, "@")  \
	X(symbol, name, 59, "@")  \
	X(symbol, name, 64, "@")  \
	X(symbol, name, 65, "@")

// Each version takes an alias of its own: before binutils 2.35 the assembler accepts one
// version per symbol.
#define ALIAS(symbol, name, version, at)                             \
	__asm__(".globl " #name "_in_" #version "\n"                 \
		"\t.set " #name "_in_" #version ", " #symbol "\n"    \
		"\t.symver " #name "_in_" #version ", " #name at "IBVERBS_PRIVATE_" #version);

// PRIVATE exports an exported symbol of the same source file as name, under every
// private version.
#define PRIVATE(symbol, name) VERSIONS(ALIAS, symbol, name)

#endif
