import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingHttpHeaders, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { getHttpOperationsFromSpec } from '@stoplight/prism-http'
import { createServer as createPrism } from '@stoplight/prism-http-server'
import { parseDocument } from '../../src/openapi/parse-document.ts'

export const fixture = (name: string): string => fileURLToPath(new URL(`../fixtures/openapi/${name}`, import.meta.url))

export interface Mock {
  readonly url: string
  close(): Promise<void>
}

const quiet: Record<string, unknown> = { level: 'silent' }
for (const level of ['trace', 'debug', 'info', 'success', 'start', 'note', 'warn', 'error', 'fatal'])
  quiet[level] = () => undefined
quiet['child'] = () => quiet

/**
 * Serves an API on loopback as its document describes it. Rejects requests that violate the document with 4xx, and
 * requests without credentials with 401.
 */
export async function serveDocument(file: string): Promise<Mock> {
  const document = (await parseDocument(readFileSync(file, 'utf8'))) as Record<string, unknown>
  const operations = await getHttpOperationsFromSpec(spellOutForms(document))
  const server = createPrism(operations, {
    components: { logger: quiet as never },
    cors: false,
    config: {
      mock: { dynamic: false, ignoreExamples: false },
      validateRequest: true,
      validateResponse: false,
      checkSecurity: true,
      errors: true,
      isProxy: false,
      upstreamProxy: undefined,
    } as never,
  })
  const url = await server.listen(0, '127.0.0.1')
  return { url, close: () => server.close() }
}

/** The mock parses a list in a form only if the document declares the default style. */
function spellOutForms<Node>(node: Node): Node {
  if (typeof node !== 'object' || node === null) return node
  for (const [key, value] of Object.entries(node)) {
    const { properties } = (key === 'application/x-www-form-urlencoded' ? (value as Media).schema : undefined) ?? {}
    for (const [name, one] of Object.entries(properties ?? {}))
      if (one.type === 'array') (value as Media).encoding = { ...(value as Media).encoding, [name]: { style: 'form' } }
    spellOutForms(value)
  }
  return node
}
interface Media {
  schema?: { properties?: Record<string, { type?: string }> }
  encoding?: Record<string, unknown>
}

export interface Seen {
  readonly method: string
  readonly url: string
  readonly headers: IncomingHttpHeaders
  readonly body: Buffer
}

/** A server that records requests and answers as a test decides. */
export async function serve(
  answer: (request: Seen, response: ServerResponse) => void,
): Promise<Mock & { readonly seen: readonly Seen[] }> {
  const seen: Seen[] = []
  const server: Server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const one = {
        method: request.method ?? '',
        url: request.url ?? '',
        headers: request.headers,
        body: Buffer.concat(chunks),
      }
      seen.push(one)
      answer(one, response)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    seen,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

/** Files in a folder that is removed afterwards. */
export function filesIn(files: Readonly<Record<string, string>>): { readonly dir: string; remove(): void } {
  const dir = mkdtempSync(join(tmpdir(), 'pegboard-openapi-'))
  for (const [name, text] of Object.entries(files)) writeFileSync(join(dir, name), text)
  return { dir, remove: () => rmSync(dir, { recursive: true, force: true }) }
}
