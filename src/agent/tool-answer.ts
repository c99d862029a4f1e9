import type { SentFile } from '../core/caller.ts'
import { mediaInBlock, textInBlock } from '../core/content-block.ts'
import { isPegboardError, joinSentences, type PegboardError } from '../core/errors.ts'
import { isRecord } from '../core/is-record.ts'
import type { ContentBlock, McpResult, ToolResult } from '../core/tool-result.ts'

/** The outcome of a call, ready for a conversation. */
export interface ToolAnswer {
  /** Text for the model: the result, or the error and what to do next. Never empty. */
  readonly text: string
  readonly isError: boolean
  /** The result as a value, if it is one. */
  readonly data?: unknown
  /** Images, audio and files of the result. */
  readonly files: readonly SentFile[]
}

export function answerOf(result: ToolResult): ToolAnswer {
  if (result.kind === 'mcp') return relayedAnswer(result.result)
  if (result.kind === 'input_required')
    return {
      text: 'E_CANNOT_ASK: The tool has a question for the user, and no user can be asked here. Pass the answer as an argument, or use another tool.',
      isError: true,
      files: [],
    }
  const { value, files, warnings } = result
  const valueText = typeof value === 'string' ? value : (JSON.stringify(value ?? null) ?? 'null')
  return {
    text: joinText([valueText, ...files.map(describeFile), ...warnings.map((warning) => `Warning: ${warning}`)]),
    isError: false,
    data: value,
    files,
  }
}

/** @throws errors that are not Pegboard errors */
export function failedAnswer(error: unknown): ToolAnswer {
  if (!isPegboardError(error)) throw error
  return { text: errorText(error), isError: true, files: [] }
}

const errorText = ({ code, message, hint }: PegboardError): string => `${code}: ${joinSentences(message, hint)}`

function relayedAnswer({ content = [], structuredContent, isError }: McpResult): ToolAnswer {
  const files = content.flatMap((block) => fileOf(block) ?? [])
  const texts = content.flatMap((block) => textOf(block) ?? [])
  const textsOrJson = texts.length > 0 || structuredContent === undefined ? texts : [JSON.stringify(structuredContent)]
  return {
    text: joinText([...textsOrJson, ...files.map(describeFile)]),
    isError: isError === true,
    ...(structuredContent === undefined ? {} : { data: structuredContent }),
    files,
  }
}

const joinText = (parts: readonly string[]): string => parts.filter((part) => part !== '').join('\n') || '(nothing)'

function textOf(block: ContentBlock): string | undefined {
  const { type, uri, name } = block
  return type === 'resource_link' ? `[${String(name ?? 'resource')}: ${String(uri)}]` : textInBlock(block)
}

function fileOf(block: ContentBlock): SentFile | undefined {
  const media = mediaInBlock(block)
  if (!media) return undefined
  const { data, mimeType: mimetype } = media
  const { type, resource } = block
  if (!isRecord(resource)) return { data, filename: type, mimetype }
  const fileUrl = String(resource['uri'])
  return { data, filename: fileUrl.split('/').at(-1) || 'file', mimetype, fileUrl }
}

/** The model only learns that there is a file. The application reads the content. */
const describeFile = ({ filename, mimetype, data }: SentFile): string =>
  `[${filename}, ${mimetype}, ${data.length} bytes]`
