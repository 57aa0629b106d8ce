# The firmware of a machine that has nothing else: it writes on some of its memory once, on
# other memory for ever, so that memory changes while it is moved to another host. What it
# has done is in the word at ROUNDS.
	.set ROUNDS, 0x1000
	.set FILLED, 0x100000		# 48 MiB from here on, each word after its address
	.set END, 0x3100000
	.set CHANGING, 0x200000		# 1 MiB from here on, a word of each page with every round
	.set SETTLED, 0x300000
	.set CR4_PGE, 0x80
	.set BASE, 0xffff0000		# where this is

	.code16
real:	cli
	lgdtl %cs:(table - real)
	movl %cr0, %eax
	orl $1, %eax			# protected mode
	movl %eax, %cr0
	ljmpl $8, $(flat - real + BASE)

	.code32
flat:	movl $16, %eax
	movl %eax, %ds
	movl $FILLED, %edi
1:	imull $0x9e3779b1, %edi, %eax
	movl %eax, (%edi)
	addl $4, %edi
	cmpl $END, %edi
	jne 1b
	xorl %ebx, %ebx
2:	incl %ebx
	# With its own emulation QEMU before 9.0 misses writes for which it has a translation
	# already, when it looks which pages have changed. So it has none at a round's beginning:
	# a change of this bit makes it forget them.
	movl %cr4, %eax
	xorl $CR4_PGE, %eax
	movl %eax, %cr4
	movl %ebx, ROUNDS
	movl $CHANGING, %edi
3:	movl %ebx, (%edi)
	addl $4096, %edi
	cmpl $SETTLED, %edi
	jne 3b
	jmp 2b

	.balign 8
segments:
	.quad 0
	.quad 0x00cf9a000000ffff	# code, all of the 4 GiB
	.quad 0x00cf92000000ffff	# data
table:	.word table - segments - 1
	.long segments - real + BASE

	.org 0xfff0			# where a processor begins
	.code16
	ljmp $0xf000, $0
	.org 0x10000
