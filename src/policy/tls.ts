/** Of what OpenSSL and Node call the troubles of TLS, those that people can do something about. */
const KNOWN: ReadonlyArray<readonly [code: RegExp, words: string]> = [
  [
    /^(?:ERR_SSL_(?:WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG|HTTP_REQUEST)|EPROTO)$/,
    'it does not speak TLS; perhaps its address begins with http://',
  ],
  [/^CERT_HAS_EXPIRED$/, 'its certificate has expired'],
  [/^CERT_NOT_YET_VALID$/, 'its certificate is not valid yet; is the clock of this machine right?'],
  [/^(?:ERR_TLS_CERT_ALTNAME_INVALID|HOSTNAME_MISMATCH)$/, 'its certificate is for another name'],
  [
    /^(?:DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_\w+)$/,
    'its certificate is of an authority that is not trusted; NODE_EXTRA_CA_CERTS can name a file with more of them',
  ],
]
const TLS = /^(?:CERT_|CRL_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_|HOSTNAME_MISMATCH|INVALID_CA|ERR_TLS_|ERR_SSL_|EPROTO)/

/** What is wrong where the other side cannot be spoken with safely. @param code of the error; undefined for other troubles */
export function tlsTrouble(code: string): string | undefined {
  if (!TLS.test(code)) return undefined
  return KNOWN.find(([known]) => known.test(code))?.[1] ?? `TLS with it does not work (${code})`
}
