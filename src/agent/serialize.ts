import type { ListedTool } from '../view/listed-tools.ts'
import { type GeminiSchema, geminiSchema } from './gemini.ts'

export const TOOL_FORMATS = ['openai', 'anthropic', 'gemini', 'ollama'] as const
export type ToolFormat = (typeof TOOL_FORMATS)[number]

/** A tool in the format of chat completions; Ollama's API accepts the same. */
export interface FunctionTool {
  readonly type: 'function'
  readonly function: {
    readonly name: string
    readonly description: string
    readonly parameters: ListedTool['inputSchema']
  }
}
export interface AnthropicTool {
  readonly name: string
  readonly description: string
  readonly input_schema: ListedTool['inputSchema']
}
export interface GeminiTools {
  readonly functionDeclarations: readonly {
    readonly name: string
    readonly description: string
    readonly parameters?: GeminiSchema
  }[]
}

export interface ToolDeclarations {
  readonly openai: readonly FunctionTool[]
  readonly ollama: readonly FunctionTool[]
  readonly anthropic: readonly AnthropicTool[]
  readonly gemini: readonly GeminiTools[]
}

type DeclaredTool = Pick<ListedTool, 'name' | 'description' | 'inputSchema'>

/**
 * Converts listed tools to a provider's format. Names and schemas are those of `tools/list`; only Gemini gets reduced
 * schemas, and no parameters for a tool without any.
 */
export function serializeTools<Format extends ToolFormat>(
  tools: readonly DeclaredTool[],
  format: Format,
): ToolDeclarations[Format] {
  const declarations: { readonly [One in ToolFormat]: () => ToolDeclarations[One] } = {
    openai: () => tools.map(asFunction),
    ollama: () => tools.map(asFunction),
    anthropic: () =>
      tools.map(({ name, description, inputSchema }) => ({ name, description, input_schema: inputSchema })),
    gemini: () => (tools.length === 0 ? [] : [{ functionDeclarations: tools.map(asDeclaration) }]),
  }
  return declarations[format]()
}

const asFunction = ({ name, description, inputSchema }: DeclaredTool): FunctionTool => ({
  type: 'function',
  function: { name, description, parameters: inputSchema },
})

function asDeclaration({ name, description, inputSchema }: DeclaredTool) {
  const parameters = geminiSchema(inputSchema)
  // Gemini rejects an object without properties.
  return parameters.properties === undefined ? { name, description } : { name, description, parameters }
}
