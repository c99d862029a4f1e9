import { X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { connect } from 'node:net'
import type { Environment } from '../config/machine.ts'
import { messageOf } from '../core/errors.ts'
import type { Reporter } from './findings.ts'

/** The lowest version that package.json allows. */
const LOWEST = [20, 19] as const

export function checkNode(version: string, report: Reporter): void {
  const [major = 0, minor = 0] = version.replace(/^v/, '').split('.').map(Number)
  if (major > LOWEST[0] || (major === LOWEST[0] && minor >= LOWEST[1]))
    report.passed({ about: 'Node.js', message: version })
  else
    report.found({
      code: 'node-too-old',
      about: 'Node.js',
      message: `${version} is older than ${LOWEST.join('.')}.`,
    })
}

const CERTIFICATES = ['NODE_EXTRA_CA_CERTS', 'SSL_CERT_FILE'] as const

/** Files with certificates that variables name. */
export async function checkCertificates(env: Environment, report: Reporter): Promise<void> {
  for (const name of CERTIFICATES) {
    const file = env[name]
    if (!file) continue
    const fault = await certificateFault(file)
    if (fault === undefined) report.passed({ about: name, message: file })
    else report.found({ code: 'certificate-file', about: name, message: `${file} ${fault}.` })
  }
}

async function certificateFault(file: string): Promise<string | undefined> {
  try {
    const [first] =
      /-----BEGIN CERTIFICATE-----[\s\S]*?-----END CERTIFICATE-----/.exec(await readFile(file, 'utf8')) ?? []
    if (first === undefined) return 'has no certificate in PEM format'
    new X509Certificate(first)
    return undefined
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    return code === 'ENOENT' ? 'does not exist' : `cannot be used (${code ?? messageOf(error)})`
  }
}

const PROXIES = ['HTTP_PROXY', 'HTTPS_PROXY', 'ALL_PROXY'] as const
const PROXY_MS = 3_000

/** @param hasRemote some servers are remote */
export async function checkProxies(env: Environment, hasRemote: boolean, report: Reporter): Promise<void> {
  const set = PROXIES.flatMap((name) =>
    [name, name.toLowerCase()].flatMap((spelled) => (env[spelled] ? [[spelled, env[spelled]] as const] : [])),
  )
  await Promise.all(set.map(([name, value]) => checkProxy(name, value, report)))
  if (set.length > 0 && hasRemote)
    report.found({
      code: 'proxy-ignored',
      about: 'proxy',
      message: `${set.map(([name]) => name).join(', ')} is set, and Pegboard connects to remote servers directly.`,
    })
}

async function checkProxy(name: string, value: string, report: Reporter): Promise<void> {
  const url = URL.canParse(value) ? new URL(value) : undefined
  // The value may contain a password.
  if (!url || url.hostname === '')
    return report.found({ code: 'proxy-invalid', about: name, message: `The value of ${name} is not an address.` })
  const port = Number(url.port) || (url.protocol === 'https:' ? 443 : url.protocol.startsWith('socks') ? 1080 : 80)
  const at = `${url.hostname}:${port}`
  const fault = await connectFault(url.hostname, port, PROXY_MS)
  if (fault === undefined) report.passed({ about: name, message: at })
  else report.found({ code: 'proxy-unreachable', about: name, message: `${at} does not answer (${fault}).` })
}

/** Why a TCP connection fails; undefined if it succeeds. */
export function connectFault(host: string, port: number, timeoutMs: number): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket = connect({ host: host.replace(/^\[|\]$/g, ''), port, timeout: timeoutMs })
    const done = (fault: string | undefined): void => {
      socket.destroy()
      resolve(fault)
    }
    socket.once('connect', () => done(undefined))
    socket.once('timeout', () => done(`no answer within ${timeoutMs / 1_000} s`))
    socket.once('error', (error: NodeJS.ErrnoException) => done(error.code ?? messageOf(error)))
  })
}
