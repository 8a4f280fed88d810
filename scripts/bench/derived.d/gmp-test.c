// SPDX-License-Identifier: GPL-2.0
/* Use much of libgmp with numbers of many sizes. */
#include <gmp.h>
#include <stdio.h>

int main(void)
{
	static const int bits[] = { 40, 64, 127, 300, 640, 1500, 3000, 8000, 20000, 60000 };
	mpz_t a, b, c, d, m;
	gmp_randstate_t r;
	unsigned long sum = 0;
	char *s;

	gmp_randinit_mt(r);
	mpz_inits(a, b, c, d, m, NULL);
	for (int i = 0; i < 10; i++) {
		for (int j = 0; j <= i; j++) {
			mpz_urandomb(a, r, bits[i]);
			mpz_setbit(a, bits[i] - 1);
			mpz_urandomb(b, r, bits[j]);
			mpz_setbit(b, bits[j] - 1);
			mpz_mul(c, a, b);
			mpz_add(d, c, a);
			mpz_sub(d, d, b);
			mpz_addmul(d, a, b);
			mpz_submul(d, b, b);
			mpz_mul(m, a, a);
			mpz_tdiv_qr(c, d, m, b);
			mpz_divexact(c, c, c);
			mpz_mul_ui(c, a, 12345);
			mpz_addmul_ui(c, b, 54321);
			mpz_submul_ui(c, b, 321);
			sum += mpz_tdiv_q_ui(c, c, 1000003);
			sum += mpz_fdiv_ui(a, 17);
			mpz_divexact_ui(c, a, 1);
			mpz_mul_2exp(c, a, 13);
			mpz_tdiv_q_2exp(c, c, 77);
			mpz_and(c, a, b);
			mpz_ior(c, a, b);
			mpz_xor(c, a, b);
			mpz_com(c, c);
			sum += mpz_popcount(a) + mpz_hamdist(a, b);
			mpz_gcd(c, a, b);
			mpz_gcdext(c, d, m, a, b);
			mpz_mul(c, a, b);
			mpz_divexact(c, c, b);
			sum += mpz_jacobi(b, (mpz_setbit(a, 0), a));
			sum += mpz_invert(c, b, a);
			if (i < 6) {
				mpz_powm(c, b, b, a);
				mpz_clrbit(a, 0);
				mpz_powm(c, b, b, a);
				mpz_setbit(a, 0);
				mpz_powm_sec(c, b, b, a);
				sum += mpz_probab_prime_p(a, 3);
			}
			mpz_sqrtrem(c, d, a);
			mpz_root(c, a, 3);
			sum += mpz_perfect_square_p(a) + mpz_divisible_p(a, b);
			sum += mpz_scan1(a, 3) + mpz_cmp(a, b) + mpz_congruent_ui_p(a, 1, 3);
		}
		s = mpz_get_str(NULL, 10, a);
		mpz_set_str(c, s, 10);
		sum += mpz_cmp(c, a);
	}
	mpz_fac_ui(a, 3000);
	mpz_fib_ui(b, 5000);
	mpz_bin_uiui(c, 500, 200);
	sum += mpz_get_ui(b) + mpz_get_ui(a) + mpz_get_ui(c);
	printf("%lu\n", sum);
	return 0;
}
