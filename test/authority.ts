import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** A certificate authority, and its certificates for these names. */
export function authority(dir: string) {
  const at = (name: string): string => join(dir, name)
  const openssl = (...args: string[]) => execFileSync('openssl', args, { stdio: 'ignore', cwd: dir })
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-keyout']
  openssl('req', '-x509', ...key, 'ca.key', '-out', 'ca.pem', '-days', '1', '-subj', '/CN=Tests')
  return {
    file: at('ca.pem'),
    certify(name: string, days: number) {
      openssl('req', '-new', ...key, `${name}.key`, '-out', `${name}.csr`, '-subj', `/CN=${name}`)
      writeFileSync(at(`${name}.ext`), `subjectAltName=DNS:${name}`)
      const signed = ['-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial', '-days', String(days)]
      openssl('x509', '-req', '-in', `${name}.csr`, ...signed, '-extfile', `${name}.ext`, '-out', `${name}.pem`)
      return { key: readFileSync(at(`${name}.key`)), cert: readFileSync(at(`${name}.pem`)) }
    },
  }
}
