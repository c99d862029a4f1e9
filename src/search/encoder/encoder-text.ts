import { isRecord } from '../../core/is-record.ts'
import { bareNameOf, type SearchSource } from '../search-document.ts'
import { QUERY, SEPARATOR, TOOL, type WordPieceTokenizer } from './word-piece-tokenizer.ts'

/** The input of the encoder: numbers of pieces, and for each the part of the text that it belongs to. */
export interface EncoderInput {
  readonly pieces: readonly number[]
  readonly parts: readonly number[]
}

/** The texts of a tool that the encoder reads, each already cut. */
export interface ToolText {
  readonly name: string
  readonly server: string
  readonly description: string
  readonly parameters: string
  /** How people ask for it, each a query of its own. */
  readonly requests?: readonly string[]
}

/** Numbers of the parts of a tool, as in training. */
const PARTS = { name: 1, server: 2, description: 3, parameters: 4 } as const
/** Maximum number of pieces of each part, as in training. */
const CAPS = { name: 24, server: 10, description: 96, parameters: 44 } as const
const QUERY_PIECES = 110
const MAX_PIECES = 160

const DESCRIPTION_CHARACTERS = 1_200
const PARAMETERS_CHARACTERS = 600
const PARAMETER_CHARACTERS = 70
const PARAMETERS_CAP = 25
const SCHEMA_DEPTH = 2

/** The texts of a tool, normalised as in training (`training/encoder/text.py`). */
export function toolTextOf(source: SearchSource): ToolText {
  const server = source.origin === 'upstream' ? source.module.replace(/^mcp_/, '') : source.module
  const parameters: string[] = []
  collectParameters(source.inputJson, 0, parameters)
  return {
    name: nameText(bareNameOf(source)).slice(0, 100),
    server: nameText(server).slice(0, 60),
    description: withoutRepeats(plainText(source.description, DESCRIPTION_CHARACTERS)),
    parameters: parameters.join('; ').slice(0, PARAMETERS_CHARACTERS),
    ...(source.requests?.length && { requests: source.requests }),
  }
}

export function toolInput(text: ToolText, tokenizer: WordPieceTokenizer): EncoderInput {
  const pieces: number[] = [TOOL]
  const parts: number[] = [0]
  for (const part of ['name', 'server', 'description', 'parameters'] as const) {
    const partPieces = tokenizer.encode(text[part], CAPS[part])
    if (partPieces.length === 0) continue
    pieces.push(...partPieces, SEPARATOR)
    parts.push(...new Array<number>(partPieces.length + 1).fill(PARTS[part]))
  }
  return { pieces: pieces.slice(0, MAX_PIECES), parts: parts.slice(0, MAX_PIECES) }
}

export function queryInput(query: string, tokenizer: WordPieceTokenizer): EncoderInput {
  const pieces = [QUERY, ...tokenizer.encode(plainText(query, DESCRIPTION_CHARACTERS), QUERY_PIECES)]
  return { pieces, parts: new Array<number>(pieces.length).fill(0) }
}

/** Removes addresses, tags and Markdown marks, and splits compound words. */
function plainText(text: string, cap: number): string {
  return splitCompounds(
    text
      .slice(0, cap)
      .replace(/https?:\/\/\S+/g, ' url ')
      .replace(/<[^>]{1,200}>/g, ' '),
  )
    .replace(/[_`*#]/g, ' ')
    .replace(/\s+/g, ' ')
    .trim()
}

/**
 * Removes immediate repetitions of up to four words. A text that consists mostly of repetitions was written to
 * rank high, and becomes empty.
 */
function withoutRepeats(text: string): string {
  const words = text.split(' ')
  const result: string[] = []
  for (const word of words) {
    result.push(word)
    for (let length = 1; length <= 4; length++) {
      const last = result.slice(-length).join(' ')
      if (result.length >= 2 * length && last === result.slice(-2 * length, -length).join(' ')) result.splice(-length)
    }
  }
  return result.length * 3 < words.length ? '' : result.join(' ')
}

function nameText(name: string): string {
  return splitCompounds(name)
    .replace(/[^\p{L}\p{N}]+/gu, ' ')
    .trim()
}

/** `listOpenIssues` as `list Open Issues`. */
function splitCompounds(text: string): string {
  return text.replace(/([a-z0-9])(?=[A-Z])/g, '$1 ').replace(/([A-Z])(?=[A-Z][a-z])/g, '$1 ')
}

function collectParameters(schema: unknown, depth: number, texts: string[]): void {
  if (depth > SCHEMA_DEPTH || texts.length >= PARAMETERS_CAP || !isRecord(schema)) return
  if (isRecord(schema.properties))
    for (const [name, property] of Object.entries(schema.properties)) {
      const description = isRecord(property) && typeof property.description === 'string' ? property.description : ''
      const text = plainText(description, PARAMETER_CHARACTERS)
      texts.push(text ? `${nameText(name)}: ${text}` : nameText(name))
      collectParameters(property, depth + 1, texts)
    }
  collectParameters(schema.items, depth + 1, texts)
}
