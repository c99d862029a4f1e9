import { randomBytes } from 'node:crypto'
import { basename } from 'node:path'
import { type OpenFile, type ToolDef, ToolError, z } from 'pegboard'
import { tooLarge } from '../_errors.ts'
import { pathsFor, SETTING, type Settings, writes } from './config.ts'
import type { Client } from './request-client.ts'
import { commonParameters, createRequest } from './request-parameters.ts'
import { showResponse } from './show-response.ts'

const { follow_redirects: _follow, ...withoutRedirects } = commonParameters
const Upload = z.object({
  ...withoutRedirects,
  path: z.string().min(1).max(4096).describe('File in the allowed folders.'),
  field: z.string().min(1).max(200).default('file').describe('Form field for the file.'),
  fields: z.record(z.string(), z.string()).default({}).describe('Other form fields.'),
})

export const createUploadFile = (client: Client): ToolDef<Settings, typeof Upload> => ({
  title: 'Upload a file',
  description:
    'Upload a file of this machine to an address as a form (POST, multipart) and return the response. For text use post.',
  aliases: ['upload', 'send file', 'téléverser', 'envoyer un fichier'],
  tags: ['http', 'files', 'forms'],
  input: Upload,
  effect: 'write',
  openWorld: true,
  opaque: ['body', 'json'],
  available: writes,
  sideEffects: ['reads a file', 'sends it to the address'],
  examples: [{ input: { url: 'https://example.com/files', path: 'report.pdf', fields: { title: 'Report' } } }],
  async run(input, { config, signal }) {
    const startedAt = performance.now()
    const { address, init } = createRequest({ ...input, follow_redirects: true }, config)
    return await pathsFor(config).readFile(input.path, async (file) => {
      if (file.size > config.max_upload)
        throw tooLarge(
          `The file has ${file.size} bytes; the limit is ${config.max_upload}.`,
          `See ${SETTING}.max_upload.`,
        )
      const form = multipart(file, input.field, input.fields)
      const response = await client.fetchFor(config)(address, {
        ...init,
        method: 'POST',
        headers: { ...init.headers, 'content-type': form.type, 'content-length': String(form.length) },
        body: form.chunks(),
        signal,
      })
      return { sent: file.size, ...(await showResponse(response, startedAt, config.max_text)) }
    })
  },
})

const CHUNK_BYTES = 64 * 1024
/** Escaped as browsers do in form headers. */
const quoteName = (name: string): string =>
  `"${name.replace(/["\r\n]/g, (char) => `%${char.charCodeAt(0).toString(16).padStart(2, '0').toUpperCase()}`)}"`

/** A multipart form with one file, streamed. */
function multipart(file: OpenFile, field: string, fields: Readonly<Record<string, string>>) {
  const boundary = `----pegboard${randomBytes(16).toString('hex')}`
  const part = (name: string): string => `--${boundary}\r\nContent-Disposition: form-data; name=${quoteName(name)}`
  const otherParts = Object.entries(fields).map(([name, value]) => `${part(name)}\r\n\r\n${value}\r\n`)
  const head = Buffer.from(
    `${otherParts.join('')}${part(field)}; filename=${quoteName(basename(file.path))}\r\nContent-Type: application/octet-stream\r\n\r\n`,
  )
  const tail = Buffer.from(`\r\n--${boundary}--\r\n`)
  return {
    type: `multipart/form-data; boundary=${boundary}`,
    length: head.length + file.size + tail.length,
    async *chunks(): AsyncGenerator<Uint8Array> {
      yield head
      for (let offset = 0; offset < file.size; ) {
        const buffer = Buffer.alloc(Math.min(CHUNK_BYTES, file.size - offset))
        const { bytesRead } = await file.handle.read(buffer, 0, buffer.length, offset)
        if (bytesRead === 0) throw new ToolError('The file became shorter during the upload.')
        yield buffer.subarray(0, bytesRead)
        offset += bytesRead
      }
      yield tail
    },
  }
}
