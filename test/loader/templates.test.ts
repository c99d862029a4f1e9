import { expect, it } from 'vitest'
import { fillTemplates } from '../../src/loader/templates.ts'

const vars = { workspace: '/w', state_dir: '/s', cache_dir: '/c', user_agent: 'ours/1', env: { SET: 'x', EMPTY: '' } }

it('templates are filled in all strings, and other braces stay', () => {
  const given = { a: ['{{workspace}}/a', '{{ cache_dir }}'], b: { c: '{{user_agent}} {{other}} {x}' }, d: 7 }
  expect(fillTemplates(given, vars)).toEqual({ a: ['/w/a', '/c'], b: { c: 'ours/1 {{other}} {x}' }, d: 7 })
})

it('a missing variable is an error, or replaced by its default', () => {
  expect(fillTemplates('{{env.SET}} {{env.SET:-y}} {{env.NONE:-y}} {{env.EMPTY:-y}} {{env.NONE:-}}', vars)).toBe(
    'x x y y ',
  )
  expect(() => fillTemplates('{{env.NONE}}', vars)).toThrow('the environment variable NONE is not set')
})

it("a variable's value is text and never expanded, also in defaults", () => {
  const env = { A: '{{env.B}}', B: 'secret' }
  const given = fillTemplates({ name: '{{env.A}}', list: [{ name: '{{env.A}}' }] }, { ...vars, env })
  expect(given).toEqual({ name: '{{env.B}}', list: [{ name: '{{env.B}}' }] })
  const withDefaults = { name: '{{env.B}}', at: '{{workspace}}', list: [{ name: '{{env.B}}', at: ['{{workspace}}'] }] }
  expect(fillTemplates(withDefaults, { ...vars, env }, given)).toEqual({
    name: '{{env.B}}',
    at: '/w',
    list: [{ name: '{{env.B}}', at: ['/w'] }],
  })
})
