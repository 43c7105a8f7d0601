/* vfork(), interposed: see borrowed_thread.hpp.
 *
 * It returns twice, the second time on a stack that the child has used: so the return address waits in a register. */
#define SYS_VFORK 58
#define MAX_ERRNO 4095

	.text
	.globl vfork
	.type vfork, @function
vfork:
	.cfi_startproc
	sub	$8, %rsp
	.cfi_adjust_cfa_offset 8
	call	leat_thread_lend@PLT
	add	$8, %rsp
	.cfi_adjust_cfa_offset -8
	pop	%rdi
	.cfi_adjust_cfa_offset -8
	.cfi_register %rip, %rdi
	mov	$SYS_VFORK, %eax
	syscall
	push	%rdi
	.cfi_adjust_cfa_offset 8
	test	%eax, %eax
	jz	.Lreturn			/* the child */
	push	%rax
	.cfi_adjust_cfa_offset 8
	call	leat_thread_take_back@PLT
	pop	%rax
	.cfi_adjust_cfa_offset -8
	cmp	$-MAX_ERRNO, %rax
	jae	.Lfailed
.Lreturn:
	ret
.Lfailed:
	push	%rax
	.cfi_adjust_cfa_offset 8
	call	__errno_location@PLT
	pop	%rcx
	.cfi_adjust_cfa_offset -8
	neg	%ecx
	mov	%ecx, (%rax)
	mov	$-1, %rax
	ret
	.cfi_endproc
	.size vfork, . - vfork

	.section .note.GNU-stack, "", @progbits
