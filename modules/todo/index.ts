import { defineModule, type ToolModule } from 'pegboard'
import { Config } from './config.ts'
import { todo_list } from './list.ts'
import { createUpdate } from './update.ts'

/** @param now what the time is; tests have their own */
export function todo(now: () => Date = () => new Date()): ToolModule<unknown> {
  return defineModule({
    name: 'todo',
    description: 'A to-do list of the person in two Markdown files, whose entries know the people they are about.',
    config: Config,
    synonyms: [['todo', 'task', 'tâche', 'tarea', 'aufgabe', '待办']],
    resources: {
      'todo://wip': {
        name: 'todo_wip',
        title: 'Open to-dos',
        description: 'The open entries of the to-do list, the newest first.',
        tool: 'todo_list',
        input: { scope: 'wip', limit: 500 },
      },
      'todo://done': {
        name: 'todo_done',
        title: 'Done to-dos',
        description: 'The entries of the to-do list that are done, the newest first.',
        tool: 'todo_list',
        input: { scope: 'done', limit: 500 },
      },
    },
    tools: { todo_update: createUpdate(now), todo_list },
  }) as ToolModule<unknown>
}

export default todo()
