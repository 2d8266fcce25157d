// A table of text. Nothing of a cell is ever read as HTML.
export default {
  template: `
    <div class="rows">
      <table v-if="rows.length">
        <caption>{{ caption }}</caption>
        <thead>
          <tr>
            <th v-for="column in columns" scope="col" :class="{ number: column.number }">{{ column.label }}</th>
            <th v-if="has_actions" scope="col"><span class="unseen">What can be done</span></th>
          </tr>
        </thead>
        <tbody>
          <tr v-for="row in rows" :key="row.key" data-row tabindex="-1" :data-key-of-row="row.key">
            <td v-for="(cell, index) in row.cells" :class="{ number: columns[index].number }">
              <a v-if="cell.href" :href="cell.href" :class="cell.tone">{{ cell.text }}</a>
              <img v-else-if="cell.picture" :src="cell.picture" :alt="cell.text" loading="lazy" />
              <span v-else :class="cell.tone" :title="cell.title">{{ cell.text }}</span>
            </td>
            <td v-if="has_actions" class="actions">
              <button
                v-for="action in row.actions"
                type="button"
                :data-key="action.key"
                :aria-label="action.label + ' ' + row.name"
                @click="$emit('act', { row: row.key, action: action.name })"
              >{{ action.label }}</button>
            </td>
          </tr>
        </tbody>
      </table>
      <template v-else>
        <h2 v-if="caption">{{ caption }}</h2>
        <p class="empty">{{ empty }}</p>
      </template>
    </div>`,
  props: { columns: Array, rows: Array, caption: String, empty: String },
  computed: {
    has_actions() {
      return this.rows.some((row) => row.actions.length);
    },
  },
};
