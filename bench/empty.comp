#version 450

// Nothing: what a dispatch costs by itself.

layout(local_size_x = 1) in;

void main() {}
