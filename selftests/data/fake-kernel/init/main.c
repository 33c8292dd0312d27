/* SPDX-License-Identifier: MIT */
int start(void)
{
	return 0;
}
