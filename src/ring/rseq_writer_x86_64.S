/* leat_rseq_write, leat_rseq_write_text and leat_rseq_write_words for x86-64: see rseq_writer.hpp for their contracts,
 * docs/formats/ring.md for their pseudo-code.
 *
 * Arguments: rdi RecordWriter, rsi EventKey (esi: the id), rdx the word's place, rcx payload (or TextPayload; nothing if
 * the payload is in xmm0), r8 its size (with an empty text), r9d what the word was. The abort handler begins again with
 * them: rdi, rsi, rcx, r8 and xmm0 stay unchanged until the commit, the others wait in the red zone.
 *
 * What it costs beyond `rdtsc` is its number of instructions, here and in its callers: about a hundred run for nothing in
 * the time that the clock takes. So: few registers that must be saved, and no branch where both ways are likely. */

#include "ring/rseq_writer_offsets.h"

/* In the red zone, which belongs to a function that calls no other */
#define SAVED_WORD -8
#define SAVED_EXPECTED -16

/* Where the payload is */
#define MEMORY 0
#define TEXT 1
#define WORDS 2

	.section .rodata.cst16, "aM", @progbits, 16
	.balign 16
.Lone_more:
	.quad 1, 0

/* Goes to `full` unless there is room for all but a text; rbp = the bytes that are left for that. Clobbers rdx. */
.macro FIND_ROOM payload, full
.if \payload == TEXT
	mov	RING_LIMIT(%r10), %rbp
	lea	COPY_SLACK(%r9), %rdx
	sub	%rdx, %rbp
	jb	\full
.else
	lea	COPY_SLACK(%r9), %rdx
	cmp	RING_LIMIT(%r10), %rdx
	ja	\full
.endif
.endm

/* One of the parts of a payload around its text goes to rbx, which moves on. Nearly always it is short. Clobbers rdx
 * and r11. */
.macro FIRST_OF_PART part, rest, done
	mov	\part + PART_SIZE(%rcx), %edx
	test	%edx, %edx
	jz	\done
	mov	\part(%rcx), %r11
	movq	(%r11), %xmm3
	movq	%xmm3, (%rbx)
	movq	8(%r11), %xmm3
	movq	%xmm3, 8(%rbx)
	add	%rdx, %rbx
	cmp	$16, %edx
	ja	\rest
.endm
.macro REST_OF_PART part, rest, done
\rest:
	/* r11 to the part's end, as rbx in the ring; rdx counts up to 0 from where the first block ended. */
	add	%rdx, %r11
	neg	%rdx
	add	$16, %rdx
\rest\()_block:
	movq	(%r11, %rdx), %xmm3
	movq	%xmm3, (%rbx, %rdx)
	movq	8(%r11, %rdx), %xmm3
	movq	%xmm3, 8(%rbx, %rdx)
	add	$16, %rdx
	js	\rest\()_block
	jmp	\done
.endm

/* The registers that belong to our caller, before either way out. */
.macro RESTORE_SAVED payload
.if \payload == TEXT
	pop	%rbp
	.cfi_adjust_cfa_offset -8
	.cfi_restore %rbp
.endif
	pop	%rbx
	.cfi_adjust_cfa_offset -8
	.cfi_restore %rbx
.endm

/* All three functions, which differ in the payload alone. */
.macro WRITER name, payload
	.section __rseq_cs, "aw", @progbits
	.balign 32
.Lsequence\@:
	.long 0, 0				/* version, flags */
	.quad .Lstart\@, .Lcommitted\@ - .Lstart\@, .Labort\@

	.text
	.balign 64
	/* The kernel restarts what lies between .Lstart and .Lcommitted, and the commit must be the last instruction of that
	 * range: so the rare paths come before the function. Its prologue is inside the range, but runs while rseq_cs is
	 * empty. */
.Lstart\@:
.Lextended\@:
	add	%r8, %r9
	add	WRITER_CONTEXT_SIZE(%rdi), %r9
	movzwl	MAP_EXTENDED_SIZE(%rdi), %r11d
	add	%r11, %r9			/* r9 = the new head */
	FIND_ROOM \payload, .Lend_of_block\@	/* H, as below */
	add	%rbx, %r11			/* the header's end. What follows goes over what is too much */
	mov	MAP_TAG(%rdi), %edx
	mov	%edx, (%rbx)
	mov	%rax, -8(%r11)
	movzwl	MAP_TAG_SIZE(%rdi), %edx
	mov	%esi, (%rbx, %rdx)
	mov	%r11, %rbx
	jmp	.Lcopy\@
.Lother_line\@:
	/* The writer keeps the line of another generation than the one that is in force: it takes this one. */
	mov	CLOCK_GENERATION(%r9), %rbx
	bt	$CLOCK_SOURCE_BIT, %rbx
	jc	.Lsystem_time\@
	mov	%ebx, %r11d
	and	$1, %r11d
	shl	$LINE_SIZE_LOG2, %r11d
	lea	CLOCK_LINES(%r9, %r11), %r11
	mov	LINE_MULTIPLIER(%r11), %rax
	mov	%rax, %rdx
	shr	$32, %rdx
	jnz	.Lslow_tsc\@
	shl	$32, %rax
	mov	%rax, WRITER_CLOCK_FACTOR(%rdi)
	mov	LINE_TSC_BASE(%r11), %rax
	mov	%rax, WRITER_CLOCK_TSC_BASE(%rdi)
	mov	LINE_NS_BASE(%r11), %rax
	mov	%rax, WRITER_CLOCK_NS_BASE(%rdi)
	/* D: the line was read before the generation is looked at again. Pairs with E in SharedClock::publish(). */
	cmp	CLOCK_GENERATION(%r9), %rbx
	jne	.Labort\@
	mov	%rbx, WRITER_CLOCK_GENERATION(%rdi)
	jmp	.Lline_known\@
.Lslow_tsc\@:
	/* A cycle takes more than a nanosecond, so the factor has more than 64 bits. */
	rdtsc
	shl	$32, %rdx
	or	%rdx, %rax
	xor	%edx, %edx
	sub	LINE_TSC_BASE(%r11), %rax
	cmovb	%rdx, %rax			/* as in .Lbefore_base */
	mulq	LINE_MULTIPLIER(%r11)
	shrd	$32, %rdx, %rax
	add	LINE_NS_BASE(%r11), %rax
	cmp	CLOCK_GENERATION(%r9), %rbx	/* D, as above */
	jne	.Labort\@
	jmp	.Ltime_known\@
.Lbefore_base\@:
	/* This CPU's TSC is a little behind the daemon's; or it began anew, as the host was asleep. */
	xor	%eax, %eax
	jmp	.Lcycles_known\@
.Lsystem_time\@:
	/* Our caller has read the system's clock, which a sequence cannot: or it has not, and must. */
	mov	WRITER_SYSTEM_TIME(%rdi), %rax
	test	%rax, %rax
	jnz	.Ltime_known\@
	jmp	.Lno_time\@
.Ltime_went_back\@:
	/* A time that was read before the sequence may be older than another writer's record: stay at the ring's time. */
	mov	RING_LAST_TIMESTAMP(%r10), %rax
	xor	%r11d, %r11d
	jmp	.Ltime_in_order\@
.Lwrong_guess\@:
	/* The last announcement was not committed: take it back, so that its record does not count. */
	mov	RING_HEAD(%r10), %r9
	mov	RING_NEXT_RECORDS(%r10), %rdx
	dec	%rdx
	movq	%r9, %xmm5
	movq	%rdx, %xmm2
	punpcklqdq %xmm2, %xmm5
	movaps	%xmm5, RING_NEXT_HEAD(%r10)
	jmp	.Lhead_known\@
.Lend_of_block\@:
	/* Overwrite mode: note where the next block begins, and go on there. What stands behind the notes is not written
	 * over until `limit` has moved, so it may be given up at any instruction. r9 = head, r11 = the end of this block; in a
	 * ring that lies, at least that of the block before head's. */
	mov	MAP_BLOCK_FACTOR(%rdi), %rax
	mov	RING_LIMIT(%r10), %rdx
	test	%rax, %rax
	jz	.Lno_room\@
	test	%rdx, %rdx
	jz	.Lno_room\@			/* its channel is no more */
	mov	RING_HEAD(%r10), %r9
	mov	MAP_BLOCK_SIZE(%rdi), %r11
	neg	%r11
	and	%r9, %r11
	cmp	%rdx, %r11
	cmovb	%rdx, %r11
	mul	%r11				/* rdx = the next one's number */
	and	$BLOCK_NOTES - 1, %edx
	shl	$NOTE_SIZE_LOG2, %edx
	lea	RING_BLOCKS(%r10, %rdx), %rbx
	/* As committed_records() */
	xor	%eax, %eax
	cmp	RING_NEXT_HEAD(%r10), %r9
	setne	%al
	neg	%rax
	add	RING_NEXT_RECORDS(%r10), %rax
	mov	%r9, NOTE_POSITION(%rbx)
	mov	%rax, NOTE_RECORDS(%rbx)
	mov	RING_LAST_TIMESTAMP(%r10), %rax
	mov	%rax, NOTE_TIMESTAMP(%rbx)
	xor	%eax, %eax
	mov	$RING_DISCARDED - RING_NEXT_HEAD, %rdx
.Ladd_discarded\@:
	add	RING_NEXT_HEAD(%r10, %rdx), %rax
	add	$8, %rdx
	jnz	.Ladd_discarded\@
	mov	%rax, NOTE_DISCARDED(%rbx)
	/* AG: the note is there before the limit. Pairs with AH in BlockReader::limit(). */
	add	MAP_BLOCK_SIZE(%rdi), %r11
	mov	%r11, RING_LIMIT(%r10)
	jmp	.Labort\@
.Lmore_contexts\@:
	/* rdx and rbx to the ends of the contexts, here and in the ring; r11 counts up to 0 from where the first block ended. */
	lea	WRITER_CONTEXTS(%rdi, %r11), %rdx
	neg	%r11
	add	$CONTEXT_ROOM, %r11
.Lcontext_block\@:
	movups	(%rdx, %r11), %xmm3
	movups	%xmm3, (%rbx, %r11)
	add	$16, %r11
	js	.Lcontext_block\@
	jmp	.Lcontexts_copied\@
.if \payload == TEXT
	REST_OF_PART TEXT_HEAD, .Lhead_rest\@, .Lhead_copied\@
	REST_OF_PART TEXT_TAIL, .Ltail_rest\@, .Lcopied\@
.Lend_of_page\@:
	/* The next page may not be there. */
	movzbl	(%r11), %edx
	mov	%dl, (%rbx)
	test	%edx, %edx
	jz	.Ltext_ends\@
	inc	%rbx
	dec	%rbp
	js	.Lno_room\@
	inc	%r11
	test	$4095, %r11d
	jnz	.Lend_of_page\@
	jmp	.Ltext_block\@
.elseif \payload == MEMORY
.Lcopy_more\@:
	mov	$16, %r11d
.Lcopy_block\@:
	mov	(%rcx, %r11), %rdx
	mov	%rdx, (%rbx, %r11)
	mov	8(%rcx, %r11), %rdx
	mov	%rdx, 8(%rbx, %r11)
	add	$16, %r11
	cmp	%r8, %r11
	jb	.Lcopy_block\@
	jmp	.Lcopied\@
.endif

	.globl \name
	.hidden \name
	.type \name, @function
	.balign 64
\name:
	.cfi_startproc
	push	%rbx
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rbx, 0
.if \payload == TEXT
	push	%rbp
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rbp, 0
.endif
	mov	%rdx, SAVED_WORD(%rsp)
	mov	%r9, SAVED_EXPECTED(%rsp)

.Lagain\@:
	mov	MAP_RSEQ_OFFSET(%rdi), %rax
	lea	.Lsequence\@(%rip), %r10
	mov	%r10, %fs:RSEQ_CS(%rax)		/* from here on we are restarted */

	/* Switched since the caller looked: nobody asks for this record any more, or for it in this form. */
	cmp	%r9d, (%rdx)
	jne	.Lchanged\@
	/* A signal handler has made the writer another channel's. Signals that come later restart us. */
	mov	%rsi, %r11
	shr	$32, %r11
	cmp	%r11d, WRITER_CHANNEL(%rdi)
	jne	.Lchanged\@

	/* r10 = the ring of this CPU */
	mov	%fs:RSEQ_CPU_ID(%rax), %r10d
	cmp	MAP_CPU_RING_COUNT(%rdi), %r10d
	jae	.Lno_ring\@
	mov	MAP_RINGS(%rdi), %r11
	mov	(%r11, %r10, 8), %r10
	test	%r10, %r10
	jz	.Lno_ring\@			/* nobody has mapped it yet */

	/* rax = now, ns. The line may be replaced between its look and the clock's: a record that began before that has a
	 * time by the line before. */
	mov	MAP_CLOCK(%rdi), %r9
	mov	WRITER_CLOCK_GENERATION(%rdi), %rax
	cmp	CLOCK_GENERATION(%r9), %rax
	jne	.Lother_line\@
.Lline_known\@:
	rdtsc
	shl	$32, %rdx
	or	%rdx, %rax
	sub	WRITER_CLOCK_TSC_BASE(%rdi), %rax
	jb	.Lbefore_base\@
.Lcycles_known\@:
	mulq	WRITER_CLOCK_FACTOR(%rdi)
	add	WRITER_CLOCK_NS_BASE(%rdi), %rdx
	mov	%rdx, %rax
.Ltime_known\@:
	/* Never back inside a ring. r11 = gap to the record before, r9 = head, rbx = where the record goes. */
	mov	%rax, %r11
	sub	RING_LAST_TIMESTAMP(%r10), %r11
	jb	.Ltime_went_back\@
.Ltime_in_order\@:
	/* head comes late: it is stored together with the time, so after the last `rdtsc`. The guess is there at once, and
	 * the processor goes on with it while the comparison waits. */
	mov	RING_NEXT_HEAD(%r10), %r9
	movq	RING_NEXT_RECORDS(%r10), %xmm2
	cmp	RING_HEAD(%r10), %r9
	jne	.Lwrong_guess\@
.Lhead_known\@:
	mov	MAP_MASK(%rdi), %rbx
	and	%r9, %rbx
	lea	RING_RECORDS(%r10, %rbx), %rbx
	cmp	MAP_GAP_LIMIT(%rdi), %r11
	jae	.Lextended\@
	cmp	MAP_TAG(%rdi), %esi
	jae	.Lextended\@

	add	%r8, %r9
	add	WRITER_CONTEXT_SIZE(%rdi), %r9
	add	MAP_SHORT_SIZE(%rdi), %r9	/* r9 = the new head */
	/* H: who sees the room sees that its records are read. Pairs with C in RingReader::release(). */
	FIND_ROOM \payload, .Lend_of_block\@
	mov	MAP_TIME_MASK(%rdi), %rdx
	and	%rax, %rdx
	imul	MAP_TIMESTAMP_FACTOR(%rdi), %rdx
	mov	%esi, %r11d
	add	%r11, %rdx
	mov	%rdx, (%rbx)			/* 8 bytes; what follows goes over what is too much */
	add	MAP_SHORT_SIZE(%rdi), %rbx
.Lcopy\@:
	/* A first block of constant size, whatever there is; the payload goes over what is too much. */
	mov	WRITER_CONTEXT_SIZE(%rdi), %r11
	test	%r11, %r11
	jz	.Lcontexts_copied\@
	movaps	WRITER_CONTEXTS(%rdi), %xmm3
	movaps	WRITER_CONTEXTS + 16(%rdi), %xmm4
	movups	%xmm3, (%rbx)
	movups	%xmm4, 16(%rbx)
	add	%r11, %rbx
	cmp	$CONTEXT_ROOM, %r11
	ja	.Lmore_contexts\@
.Lcontexts_copied\@:
	/* By words, as the payload was staged: a load that spans two stores just made waits until they are in the cache. */
.if \payload == TEXT
	FIRST_OF_PART TEXT_HEAD, .Lhead_rest\@, .Lhead_copied\@
.Lhead_copied\@:
	/* The text: looked at and copied by blocks that do not cross a page. rbp = how long it may be. */
	mov	$TEXT_MAX, %edx
	cmp	%rdx, %rbp
	cmova	%rdx, %rbp
	mov	TEXT_CHARS(%rcx), %r11
	pxor	%xmm4, %xmm4
.Ltext_block\@:
	mov	%r11d, %edx
	and	$4095, %edx
	cmp	$4096 - 16, %edx
	ja	.Lend_of_page\@
	movdqu	(%r11), %xmm3
	movdqu	%xmm3, (%rbx)
	pcmpeqb	%xmm4, %xmm3
	pmovmskb %xmm3, %edx
	test	%edx, %edx
	jnz	.Ltext_ends_in_block\@
	add	$16, %r11
	add	$16, %rbx
	sub	$16, %rbp
	jns	.Ltext_block\@
	jmp	.Lno_room\@
.Ltext_ends_in_block\@:
	bsf	%edx, %edx
.Ltext_ends\@:
	cmp	%rdx, %rbp
	jb	.Lno_room\@
	lea	1(%rbx, %rdx), %rbx
	add	%rdx, %r11
	sub	TEXT_CHARS(%rcx), %r11
	add	%r11, %r9			/* only now: the new head */
	FIRST_OF_PART TEXT_TAIL, .Ltail_rest\@, .Lcopied\@
.elseif \payload == WORDS
	movups	%xmm0, (%rbx)
.else
	mov	(%rcx), %rdx
	mov	8(%rcx), %r11
	mov	%rdx, (%rbx)
	mov	%r11, 8(%rbx)
	cmp	$16, %r8
	ja	.Lcopy_more\@
.endif
.Lcopied\@:
	movq	%r9, %xmm5
	movq	%rax, %xmm1
	paddq	.Lone_more(%rip), %xmm2
	punpcklqdq %xmm2, %xmm5
	movaps	%xmm5, RING_NEXT_HEAD(%r10)	/* the announcement: {next_head, next_records} */
	movlhps	%xmm1, %xmm5
	/* A: the record's bytes become visible before the head that covers them, as x86 keeps the order of stores. Pairs
	 * with B in look_at_head(). */
	movaps	%xmm5, RING_HEAD(%r10)		/* the commit: {head, last_timestamp} */
.Lcommitted\@:
	xor	%eax, %eax
	/* Not left to the kernel, which clears it lazily: our code may be unmapped by then (static libleat, dlclose). */
	mov	MAP_RSEQ_OFFSET(%rdi), %rdx
	movq	$0, %fs:RSEQ_CS(%rdx)
	.cfi_remember_state
	RESTORE_SAVED \payload
	ret
	.cfi_restore_state

.Lno_room\@:
	mov	$OUTCOME_NO_ROOM, %eax
	jmp	.Lnot_written\@
.Lno_ring\@:
	mov	$OUTCOME_NO_RING, %eax
	jmp	.Lnot_written\@
.Lchanged\@:
	mov	$OUTCOME_CHANGED, %eax
	jmp	.Lnot_written\@
.Lno_time\@:
	mov	$OUTCOME_NO_TIME, %eax
.Lnot_written\@:
	mov	MAP_RSEQ_OFFSET(%rdi), %rdx
	movq	$0, %fs:RSEQ_CS(%rdx)
	mov	SAVED_WORD(%rsp), %rdx
.if \payload == TEXT
	mov	WRITER_TEXT_NOT_WRITTEN(%rdi), %r10
.elseif \payload == WORDS
	mov	WRITER_WORDS_NOT_WRITTEN(%rdi), %r10
.else
	mov	WRITER_NOT_WRITTEN(%rdi), %r10
.endif
	.cfi_remember_state
	RESTORE_SAVED \payload
	mov	%eax, %r9d
	test	%r10, %r10
	jz	.Lreturn\@
	jmp	*%r10				/* with our arguments, and the outcome as the last one */
.Lreturn\@:
	ret
	.cfi_restore_state

	/* The kernel looks for the signature before it believes the abort address; as an instruction it is ud1. */
	.byte	0x0f, 0xb9, 0x3d
	.long	RSEQ_SIGNATURE
.Labort\@:
	mov	SAVED_WORD(%rsp), %rdx
	mov	SAVED_EXPECTED(%rsp), %r9
	jmp	.Lagain\@
	.cfi_endproc
	.size \name, . - \name

.endm

	WRITER leat_rseq_write, MEMORY
	WRITER leat_rseq_write_text, TEXT
	WRITER leat_rseq_write_words, WORDS

	.section .note.GNU-stack, "", @progbits
