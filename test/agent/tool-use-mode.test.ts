import { describe, expect, it } from 'vitest'
import { toolUseMode } from '../../src/agent/tool-use-mode.ts'

describe('the way a model gets its tools', () => {
  it.each([
    ['openai', 'native'],
    ['deepseek', 'native'],
    ['groq', 'native'],
    ['mistral', 'native'],
    ['together', 'native'],
    ['ollama', 'text'],
    ['lmstudio', 'text'],
    ['vllm', 'text'],
    ['OpenAI', 'native'],
    ['LM Studio', 'text'],
    ['lm-studio', 'text'],
    ['vLLM', 'text'],
    ['Together AI', 'native'],
    ['something new', 'native'],
    ['', 'native'],
  ])('depends on its provider: %s uses %s [DIG-36]', (provider, mode) => {
    expect(toolUseMode(provider)).toBe(mode)
  })

  it("is the operator's choice, whatever the provider [MOR-54]", () => {
    expect(toolUseMode('openai', 'force')).toBe('text')
    expect(toolUseMode('ollama', 'off')).toBe('native')
    expect(toolUseMode('ollama', 'fallback')).toBe('native')
    expect(toolUseMode('ollama', undefined)).toBe('text')
  })
})
