import { expect, it } from 'vitest'
import { findPrompt } from '../../src/server/pass-through.ts'
import { emptyOwner } from '../owner.ts'

it('a prompt is found by its exposed name', () => {
  const prompt = { name: 'a__p', entry: { name: 'a__p' } }
  const owner = emptyOwner({ id: 'a', prompts: [prompt] })
  expect(findPrompt([owner], new Map(), 'a__p')).toEqual({ owner, prompt })
  expect(findPrompt([owner], new Map([[prompt, 'a__p_2']]), 'a__p')).toBeUndefined()
  expect(findPrompt([owner], new Map([[prompt, 'a__p_2']]), 'a__p_2')).toEqual({ owner, prompt })
})
