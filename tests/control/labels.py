"""Labels by which tests find the elements of the pages."""

# Submitting
ITEMS_FIELD = "Items: one a line"
JOB_NAME = "Name, for people"
FORMAT = "What is pasted is"
MOST_ITEMS = "At most so many items"
UPLOAD = "Upload a file instead"

# Jobs, items, sites
IN_ITEM = "In key or reason"
WHY = "Why, for others"
UNTIL = "Until when"

# Schedules
ADD_SCHEDULE = "Add a schedule"
SCHEDULE_NAME = "Name of the schedule"
COMING_DAY = "The coming day"

# What is watched
ADD_WATCHED = "Watch something more"
WATCHED = "Feeds and endpoints"
FEED_ADDRESS = "Address of a feed"
HOW_MANY_TIMES = "How many times"
HOW_IT_STANDS = "How it stands"
IN_WATCHED = "In name or reason"
RESTART_ALL = "Restart all of notices that failed"

# Tokens
MAKE_TOKEN = "Make a token"
TOKEN_NAME = "Who gets it"
TOKEN_SCOPE = "What it is good for"
TOKEN_DAYS = "For how many days"
COPIED = "I have copied it"
