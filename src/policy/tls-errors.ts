/** TLS errors of OpenSSL and Node that people can act on. */
const KNOWN: ReadonlyArray<readonly [code: RegExp, words: string]> = [
  [
    /^(?:ERR_SSL_(?:WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG|HTTP_REQUEST)|EPROTO)$/,
    'it does not use TLS; its address may need http://',
  ],
  [/^CERT_HAS_EXPIRED$/, 'its certificate has expired'],
  [/^CERT_NOT_YET_VALID$/, 'its certificate is not valid yet; is the clock of this machine right?'],
  [/^(?:ERR_TLS_CERT_ALTNAME_INVALID|HOSTNAME_MISMATCH)$/, 'its certificate is for another name'],
  [
    /^(?:DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_\w+)$/,
    'its certificate is from an authority that is not trusted; NODE_EXTRA_CA_CERTS can name a file with more authorities',
  ],
]
const TLS = /^(?:CERT_|CRL_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_|HOSTNAME_MISMATCH|INVALID_CA|ERR_TLS_|ERR_SSL_|EPROTO)/

/** Explains a TLS error. @param code of the error; undefined is returned for other errors */
export function describeTlsError(code: string): string | undefined {
  if (!TLS.test(code)) return undefined
  return KNOWN.find(([pattern]) => pattern.test(code))?.[1] ?? `TLS failed (${code})`
}
