/* The sequence for texts and words, with a writer that the caller chose: see given_writers.hpp. */

#include "ring/rseq_given_writer_x86_64.inc"

	SEQUENCE leat_rseq_write_text, TEXT, GIVEN
	SEQUENCE leat_rseq_write_words, WORDS, GIVEN, at=%rcx
	SEQUENCE leat_rseq_write_text_words, TEXT_WORDS, GIVEN, at=%rcx

	.section .note.GNU-stack, "", @progbits
