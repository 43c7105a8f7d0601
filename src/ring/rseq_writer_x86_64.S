/* leat_rseq_write for x86-64: see rseq_writer.hpp for its contract, docs/formats/ring.md for its pseudo-code.
 *
 * Arguments, unchanged until the end, so that the abort handler can begin again:
 *   rdi RingMap, rsi EventHeader, rdx enabled word (moved to rbp), rcx record, r8 its size, r9 system time. */

/* struct rseq, at thread pointer + RingMap.rseq_offset (kernel, uapi/linux/rseq.h) */
#define RSEQ_CPU_ID 4
#define RSEQ_CS 8
#define RSEQ_SIGNATURE 0x53053053

#define MAP_BASE 0
#define MAP_STRIDE 8
#define MAP_MASK 16
#define MAP_CLOCK 24
#define MAP_RSEQ_OFFSET 32
#define MAP_CPU_RING_COUNT 40

#define HEADER_GAP_LIMIT 0
#define HEADER_TIMESTAMP_FACTOR 8
#define HEADER_ID 16
#define HEADER_SHORT_SIZE 24
#define HEADER_TAG 32
#define HEADER_TAG_SIZE 40
#define EXTENDED_TAIL 12

#define RING_HEAD 0
#define RING_LAST_TIMESTAMP 8
#define RING_LIMIT 136
#define RING_RECORDS 4096
#define COPY_SLACK 32

#define CLOCK_GENERATION 64
#define CLOCK_SOURCE 68
#define CLOCK_LINES 128
#define LINE_TSC_BASE 0
#define LINE_NS_BASE 8
#define LINE_MULTIPLIER 16

	.section __rseq_cs, "aw", @progbits
	.balign 32
.Lsequence:
	.long 0, 0				/* version, flags */
	.quad .Lstart, .Lcommitted - .Lstart, .Labort

	.text
	.balign 64
	/* The kernel restarts what lies between .Lstart and .Lcommitted, and the commit must be the last instruction of
	 * that range: so the rare paths come before the function. Its prologue is inside the range, but runs while
	 * rseq_cs is empty. */
.Lstart:
.Lextended:
	mov	HEADER_TAG_SIZE(%rsi), %r11
	lea	EXTENDED_TAIL(%r12, %r11), %r12
	add	%r8, %r12			/* r12 = the new head */
	lea	COPY_SLACK(%r12), %rdx
	cmp	RING_LIMIT(%r10), %rdx
	ja	.Lno_room
	mov	HEADER_TAG(%rsi), %rdx
	mov	%rdx, (%rbx)			/* 8 bytes; what follows goes over what is too much */
	add	%r11, %rbx
	mov	HEADER_ID(%rsi), %rdx
	mov	%edx, (%rbx)
	mov	%rax, 4(%rbx)
	add	$EXTENDED_TAIL, %rbx
	jmp	.Lcopy
.Lsystem_time:
	mov	%r9, %rax
	jmp	.Ltime_known

	.globl leat_rseq_write
	.hidden leat_rseq_write
	.type leat_rseq_write, @function
	.balign 64
leat_rseq_write:
	.cfi_startproc
	push	%rbx
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rbx, 0
	push	%rbp
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rbp, 0
	push	%r12
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %r12, 0
	mov	%rdx, %rbp

.Lagain:
	mov	MAP_RSEQ_OFFSET(%rdi), %rax
	lea	.Lsequence(%rip), %r10
	mov	%r10, %fs:RSEQ_CS(%rax)		/* from here on we are restarted */

	cmpl	$0, (%rbp)
	je	.Ldisabled

	/* r10 = the ring of this CPU */
	mov	%fs:RSEQ_CPU_ID(%rax), %eax
	cmp	MAP_CPU_RING_COUNT(%rdi), %eax
	jae	.Lno_ring
	imul	MAP_STRIDE(%rdi), %rax
	mov	MAP_BASE(%rdi), %r10
	add	%rax, %r10

	/* rax = now, ns */
	mov	MAP_CLOCK(%rdi), %rbx
	mov	CLOCK_GENERATION(%rbx), %r12d
	cmpl	$0, CLOCK_SOURCE(%rbx)
	jne	.Lsystem_time
	mov	%r12d, %r11d
	and	$1, %r11d
	shl	$5, %r11
	lea	CLOCK_LINES(%rbx, %r11), %r11
	rdtsc
	shl	$32, %rdx
	or	%rdx, %rax
	xor	%edx, %edx
	sub	LINE_TSC_BASE(%r11), %rax
	cmovb	%rdx, %rax			/* this CPU's TSC is a little behind the daemon's */
	mulq	LINE_MULTIPLIER(%r11)
	shrd	$32, %rdx, %rax
	add	LINE_NS_BASE(%r11), %rax
	cmp	CLOCK_GENERATION(%rbx), %r12d
	jne	.Lagain
.Ltime_known:
	/* Never back inside a ring. r11 = gap to the record before, r12 = head, rbx = where the record goes. */
	mov	RING_LAST_TIMESTAMP(%r10), %rdx
	cmp	%rdx, %rax
	cmovb	%rdx, %rax
	mov	%rax, %r11
	sub	%rdx, %r11
	mov	RING_HEAD(%r10), %r12
	mov	MAP_MASK(%rdi), %rbx
	and	%r12, %rbx
	lea	RING_RECORDS(%r10, %rbx), %rbx
	cmp	HEADER_GAP_LIMIT(%rsi), %r11
	jae	.Lextended

	mov	HEADER_SHORT_SIZE(%rsi), %r11
	add	%r8, %r12
	add	%r11, %r12			/* r12 = the new head */
	lea	COPY_SLACK(%r12), %rdx
	cmp	RING_LIMIT(%r10), %rdx
	ja	.Lno_room
	mov	HEADER_TIMESTAMP_FACTOR(%rsi), %rdx
	imul	%rax, %rdx
	add	HEADER_ID(%rsi), %rdx
	mov	%rdx, (%rbx)			/* 8 bytes; the payload goes over what is too much */
	add	%r11, %rbx
.Lcopy:
	mov	%rcx, %rdx
	mov	%r8, %r11
.Lcopy_block:
	movups	(%rdx), %xmm0
	movups	16(%rdx), %xmm1
	movups	%xmm0, (%rbx)
	movups	%xmm1, 16(%rbx)
	add	$32, %rdx
	add	$32, %rbx
	sub	$32, %r11
	ja	.Lcopy_block

	movq	%r12, %xmm0
	movq	%rax, %xmm1
	punpcklqdq %xmm1, %xmm0
	movaps	%xmm0, RING_HEAD(%r10)		/* the commit: {head, last_timestamp} */
.Lcommitted:
	xor	%eax, %eax
.Lreturn:
	/* Not left to the kernel, which clears it lazily: our code may be unmapped by then (static libleat, dlclose). */
	mov	MAP_RSEQ_OFFSET(%rdi), %rdx
	movq	$0, %fs:RSEQ_CS(%rdx)
	pop	%r12
	.cfi_remember_state
	.cfi_adjust_cfa_offset -8
	.cfi_restore %r12
	pop	%rbp
	.cfi_adjust_cfa_offset -8
	.cfi_restore %rbp
	pop	%rbx
	.cfi_adjust_cfa_offset -8
	.cfi_restore %rbx
	ret
	.cfi_restore_state

.Lno_room:
	mov	$1, %eax
	jmp	.Lreturn
.Lno_ring:
	mov	$2, %eax
	jmp	.Lreturn
.Ldisabled:
	mov	$3, %eax
	jmp	.Lreturn

	/* The kernel looks for the signature before it believes the abort address; as an instruction it is ud1. */
	.byte	0x0f, 0xb9, 0x3d
	.long	RSEQ_SIGNATURE
.Labort:
	jmp	.Lagain
	.cfi_endproc
	.size leat_rseq_write, . - leat_rseq_write

	.section .note.GNU-stack, "", @progbits
