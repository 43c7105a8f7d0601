/* leat_rseq_write for x86-64: see rseq_writer.hpp. Its caller says where the record goes. */

#include "ring/rseq_given_writer_x86_64.inc"

	.hidden	leat_rseq_write
	SEQUENCE leat_rseq_write, MEMORY, GIVEN

	.section .note.GNU-stack, "", @progbits
