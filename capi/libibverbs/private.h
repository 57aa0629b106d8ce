// The versions of libibverbs' private symbols, which rdma-core's own libraries and some of
// its programs import in addition to the verbs.
#ifndef PRIVATE_H
#define PRIVATE_H

// VERSIONS calls X once for each private version. rdma-core 35 to 56 use version 34; later
// releases added 57, 59, 64 and 65. Here every version has all symbols, including those
// that rdma-core added in a later one. A program linked with this library uses version 34.
#define VERSIONS(X, symbol, name) \
	X(symbol, name, 34, "@@") \
	X(symbol, name, 57, "@")  \
	X(symbol, name, 59, "@")  \
	X(symbol, name, 64, "@")  \
	X(symbol, name, 65, "@")

// ALIAS gives a symbol one version, under an alias made for it: assemblers before binutils
// 2.35 accept only one version per symbol.
#define ALIAS(symbol, name, version, at)                             \
	__asm__(".globl " #name "_in_" #version "\n"                 \
		"\t.set " #name "_in_" #version ", " #symbol "\n"    \
		"\t.symver " #name "_in_" #version ", " #name at "IBVERBS_PRIVATE_" #version);

// PRIVATE exports a symbol of the same source file as name, in every private version.
#define PRIVATE(symbol, name) VERSIONS(ALIAS, symbol, name)

#endif
