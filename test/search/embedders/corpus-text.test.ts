import { describe, expect, it } from 'vitest'
import { corpusText } from '../../../src/search/embedders/corpus-text.ts'
import type { SearchSource } from '../../../src/search/search-document.ts'

const tool: SearchSource = {
  id: 'filesystem.read_file',
  name: 'filesystem__read_file',
  module: 'filesystem',
  title: 'Read a file',
  description: 'Gives the text of one file.',
  aliases: ['lire un fichier'],
  tags: ['disk'],
  sideEffects: ['reads_files'],
  inputJson: {
    type: 'object',
    properties: {
      path: { type: 'string', description: 'Where it is.' },
      range: { type: 'object', properties: { startLine: { type: 'integer' } } },
    },
  },
  origin: 'module',
  synonyms: [
    ['file', 'document'],
    ['calendar', 'agenda'],
  ],
  moduleDescription: 'Files and folders of this machine',
}

describe('the embedded text of a tool', () => {
  it('contains name, description, tags, parameter names, side effects, aliases and synonyms [DIG-43]', () =>
    expect(corpusText(tool)).toBe(
      'filesystem.read_file (filesystem read file). Read a file. Gives the text of one file. Also: lire un fichier. ' +
        'Like: document. About: disk. Takes: path, range, start Line. Effects: reads files. ' +
        'filesystem: Files and folders of this machine.',
    ))

  it('omits what the tool does not have', () =>
    expect(
      corpusText({
        ...tool,
        title: '',
        aliases: [],
        tags: [],
        sideEffects: [],
        inputJson: {},
        synonyms: [],
        moduleDescription: '',
      }),
    ).toBe('filesystem.read_file (filesystem read file). Gives the text of one file.'))

  it('contains the title only if it differs from the name', () =>
    expect(corpusText({ ...tool, name: 'read_file', title: 'Read File' })).not.toContain('Read File'))

  it('keeps every part if the description is long', () => {
    const text = corpusText({ ...tool, description: '漢字。'.repeat(10_000) })
    for (const part of ['lire un fichier', 'document', 'disk', 'startLine'.replace('L', ' L'), 'reads files'])
      expect(text).toContain(part)
    expect(text.length).toBeLessThan(1_200)
  })

  it('is bounded for a tool of ten thousand parameters, nested or not', () => {
    const properties = Object.fromEntries(Array.from({ length: 10_000 }, (_, index) => [`parameter_${index}`, {}]))
    expect(corpusText({ ...tool, inputJson: { properties } }).length).toBeLessThan(800)
    const nested: Record<string, unknown> = {}
    nested['properties'] = { again: nested }
    expect(corpusText({ ...tool, inputJson: nested })).toContain('Takes: again.')
  })
})
