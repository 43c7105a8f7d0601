/* leat_write and its kind for x86-64: see <leat/abi.h> for their contracts, write.cpp for what
 * they leave to others.
 *
 * A record goes straight into the CPU's ring if its event is asked for by one lane alone, with one action, and that is of
 * the channel which the thread has ready (thread_state.hpp). The word is looked at twice, and the action is read in
 * between: so it is whole, and still asked for. */

#include "ring/rseq_sequence_x86_64.inc"
#include "tracer/write_offsets.h"

/* In the red zone, which belongs to a function that calls no other */
#define SAVED_TRACEPOINT -8
#define SAVED_IP -16

.macro STRAIGHT_BEGIN payload
	mov	%rdi, SAVED_TRACEPOINT(%rsp)
	mov	%rsi, SAVED_IP(%rsp)
.if \payload == TEXT
	mov	%rdx, %rcx
	mov	TEXT_HEAD + PART_SIZE(%rdx), %r8
	add	TEXT_TAIL + PART_SIZE(%rdx), %r8
	inc	%r8
.elseif \payload == WORDS
	mov	%rdx, %r8
.elseif \payload == TEXT_WORDS
	mov	%rdx, SAVED_TEXT(%rsp)
	mov	%rcx, SAVED_HEAD_SIZE(%rsp)
.endif
.endm

.macro STRAIGHT_FIND sequence, none, changed
	mov	TRACEPOINT_WORD(%rdi), %r9
	mov	THREAD_STATE@gottpoff(%rip), %rdi
	add	%fs:0, %rdi			/* the writer of the first channel */
	/* Without a key, nothing may be filled in yet; or somebody else runs on this thread (a child of vfork), who leaves its
	 * rseq area alone. Whatever a signal handler makes of the writer behind this, its area is this thread's. */
	cmpq	$NO_KEY, WRITER_READY_KEY(%rdi)
	je	\none
	BE_RESTARTED \sequence

	/* P: the action was written before the word. Pairs with O in ControlFile::switch_to(). x86 keeps loads in order. */
	mov	(%r9), %edx
	test	%edx, %edx			/* a library that is being unloaded takes its word away */
	jz	\changed
	test	%edx, WRITER_OTHERS(%rdi)
	jnz	\changed
	mov	WRITER_ACTIONS(%rdi), %r10
	lea	ACTION_SIZE(%r10), %r11
	test	%edx, WRITER_SECOND_LIST(%rdi)
	cmovnz	%r11, %r10
	mov	ACTION_ID(%r9, %r10), %esi
	mov	ACTION_CHANNEL(%r9, %r10), %r11d
	or	PROCESS_PAGE(%rip), %r11
	cmp	WRITER_READY_KEY(%rdi), %r11
	jne	\changed
	cmp	%edx, (%r9)
	jne	\changed
.endm

.macro STRAIGHT_ARGUMENTS
	mov	SAVED_TRACEPOINT(%rsp), %rdi
	mov	SAVED_IP(%rsp), %rsi
.endm

.macro STRAIGHT_LEAVE payload
	mov	%eax, %edx
.if \payload == TEXT
	jmp	leat_text_not_written
.elseif \payload == WORDS
	jmp	leat_words_not_written
.elseif \payload == TEXT_WORDS
	mov	SAVED_TEXT(%rsp), %rcx
	mov	SAVED_HEAD_SIZE(%rsp), %r9
	jmp	leat_text_words_not_written
.else
	jmp	leat_payload_not_written
.endif
.endm

	SEQUENCE leat_write, MEMORY, STRAIGHT
	SEQUENCE leat_write_text, TEXT, STRAIGHT
	SEQUENCE leat_write_words, WORDS, STRAIGHT, at=%rcx
	SEQUENCE leat_write_text_words, TEXT_WORDS, STRAIGHT, at=%rcx

	.section .note.GNU-stack, "", @progbits
