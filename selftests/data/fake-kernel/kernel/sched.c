/* SPDX-License-Identifier: MIT */
int schedule(void)
{
	return 1;
}
