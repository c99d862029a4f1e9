import { defineModule, type ToolModule } from 'pegboard'
import { Config } from './config.ts'
import { todo_list } from './list.ts'
import { createUpdate } from './update.ts'

/** @param now clock; tests pass their own */
export function todo(now: () => Date = () => new Date()): ToolModule<unknown> {
  return defineModule({
    name: 'todo',
    description: "The user's to-do list in two Markdown files, with links to the people in it.",
    config: Config,
    synonyms: [['todo', 'task', 'tâche', 'tarea', 'aufgabe', '待办']],
    resources: {
      'todo://wip': {
        name: 'todo_wip',
        title: 'Open to-dos',
        description: 'Open entries of the to-do list, newest first.',
        tool: 'todo_list',
        input: { scope: 'wip', limit: 500 },
      },
      'todo://done': {
        name: 'todo_done',
        title: 'Done to-dos',
        description: 'Completed entries of the to-do list, newest first.',
        tool: 'todo_list',
        input: { scope: 'done', limit: 500 },
      },
    },
    tools: { todo_update: createUpdate(now), todo_list },
  }) as ToolModule<unknown>
}

export default todo()
