# The page of reports (timeline/page.html), built into programs.

# oomb_page_template(SOURCE ROOT): SOURCE becomes the generated file that holds the page of the clone ROOT with its style
# and script in it. Its own placeholder for data passes through.
function(oomb_page_template source root)
  file(READ ${root}/timeline/page.html OOMB_PAGE_TEMPLATE)
  foreach(part css js)
    file(READ ${root}/timeline/page.${part} text)
    string(REPLACE "@OOMB_PAGE_${part}@" "${text}" OOMB_PAGE_TEMPLATE "${OOMB_PAGE_TEMPLATE}")
  endforeach()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
    ${root}/timeline/page.html ${root}/timeline/page.css ${root}/timeline/page.js)
  set(OOMB_PAGE_DATA "@OOMB_PAGE_DATA@")
  configure_file(${root}/timeline/page_template.cpp.in ${CMAKE_CURRENT_BINARY_DIR}/page_template.cpp @ONLY)
  set(${source} ${CMAKE_CURRENT_BINARY_DIR}/page_template.cpp PARENT_SCOPE)
endfunction()
