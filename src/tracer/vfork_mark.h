/* What stands in front of our vfork (vfork_x86_64.S), eight bytes by which sees_vforks() knows it. */
#pragma once

#define LEAT_VFORK_MARK "LEATVFRK"
