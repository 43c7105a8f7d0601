/* vfork(), and syscall() that may be one, interposed: see shared_thread.hpp.
 *
 * A vfork returns twice, the second time on a stack that the child has used: so the return address waits in a register.
 *
 *     called                  | return address
 *     before the system call  | (free)            popped into rdi, which the kernel keeps
 *     child                   | return address    pushed, returned to; then the child's calls use this place
 *     parent                  | return address    pushed again, over what the child has left
 *
 * C cannot say this: the function must not have a frame of its own. */
#include <asm/unistd.h>

#define MAX_ERRNO 4095	/* the kernel returns -MAX_ERRNO to -1 for an error */

	.text
	.balign 16
	.globl vfork
	.type vfork, @function
	.globl leat_own_vfork
	.hidden leat_own_vfork
	.type leat_own_vfork, @function
vfork:
leat_own_vfork:
	.cfi_startproc
	sub	$8, %rsp
	.cfi_adjust_cfa_offset 8
	call	leat_thread_share@PLT
	add	$8, %rsp
	.cfi_adjust_cfa_offset -8
	pop	%rdi
	.cfi_adjust_cfa_offset -8
	.cfi_register %rip, %rdi
	mov	$__NR_vfork, %eax
	syscall
	push	%rdi
	.cfi_adjust_cfa_offset 8
	test	%eax, %eax
	jz	.Lreturn			/* the child */
	push	%rax
	.cfi_adjust_cfa_offset 8
	call	leat_thread_unshare@PLT		/* the parent, also where there is no child */
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
	.size leat_own_vfork, . - leat_own_vfork

	.hidden leat_own_seccomp	/* seccomp_x86_64.cpp */
	.globl syscall
	.type syscall, @function
syscall:
	.cfi_startproc
	/* The function's arguments to the kernel's registers: all one place to the left, the fourth one in r10. */
	cmp	$__NR_vfork, %rdi
	je	vfork@PLT
	cmp	$__NR_seccomp, %rdi
	je	leat_own_seccomp
	mov	%rdi, %rax
	mov	%rsi, %rdi
	mov	%rdx, %rsi
	mov	%rcx, %rdx
	mov	%r8, %r10
	mov	%r9, %r8
	mov	8(%rsp), %r9
	syscall
	cmp	$-MAX_ERRNO, %rax
	jae	.Lfailed
	ret
	.cfi_endproc
	.size syscall, . - syscall

	.section .note.GNU-stack, "", @progbits
